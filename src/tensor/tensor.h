// An owning tensor with a compile-time element type.
//
// Elements are contiguous, last dimension fastest, the first one on a 64-byte boundary. A new
// tensor is zero. Tensors are move-only; clone() copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/checked.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace deltasane {

template <class T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Shape& shape) : Tensor(shape, Buffer(bytes_of(shape))) {}
  // In memory of exactly that many bytes, from any allocator.
  Tensor(const Shape& shape, Buffer memory) : shape_(shape), memory_(std::move(memory)) {
    require(memory_.size() == bytes_of(shape), "a tensor has as much memory as elements");
    if (memory_.size()) std::memset(memory_.data(), 0, memory_.size());
  }
  static uint64_t bytes_of(const Shape& shape) {
    return checked_multiply(checked_product(shape, "tensor shape"), sizeof(T), "tensor size");
  }

  const Shape& shape() const { return shape_; }
  int64_t elements() const { return int64_t(memory_.size() / sizeof(T)); }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }
  std::span<T> span() { return {data(), size_t(elements())}; }
  std::span<const T> span() const { return {data(), size_t(elements())}; }
  View<T> view() { return {data(), shape_}; }
  View<const T> view() const { return {data(), shape_}; }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }
  void fill(T value) { std::fill_n(data(), elements(), value); }
  Tensor clone() const {
    if (elements() == 0) return {};
    Tensor copy(shape_);
    std::memcpy(copy.memory_.data(), memory_.data(), memory_.size());
    return copy;
  }

 private:
  Shape shape_;
  Buffer memory_;
};

}  // namespace deltasane
