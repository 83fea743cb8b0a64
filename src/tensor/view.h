// A view: a non-owning pointer with shape and strides.
//
// Shapes and strides are 64-bit and counted in elements. Dimensions come in the order (batch, time,
// head, channel). A view without data is an argument that was not given.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace deltasane {

inline constexpr int max_rank = 6;

class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> sizes) {
    require(sizes.size() <= size_t(max_rank), "a shape has at most 6 dimensions");
    for (const int64_t size : sizes) size_[size_t(rank_++)] = size;
  }

  constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int i) const { return size_[size_t(i)]; }
  constexpr int64_t& operator[](int i) { return size_[size_t(i)]; }
  constexpr int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= size_[size_t(i)];
    return product;
  }
  constexpr void push_back(int64_t size) {
    require(rank_ < max_rank, "a shape has at most 6 dimensions");
    size_[size_t(rank_++)] = size;
  }
  constexpr const int64_t* begin() const { return size_.data(); }
  constexpr const int64_t* end() const { return size_.data() + rank_; }
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, max_rank> size_{};
  int rank_ = 0;
};

inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) text += cat(i ? ", " : "", shape[i]);
  return text + ")";
}
inline void append_part(std::string& text, const Shape& shape) { text += to_string(shape); }

// The strides of contiguous elements, last dimension fastest.
constexpr Shape contiguous_strides(const Shape& shape) {
  Shape stride = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    stride[i] = step;
    step *= shape[i];
  }
  return stride;
}

template <class T>
struct View {
  T* data = nullptr;
  Shape shape, stride;

  View() = default;
  View(T* first, const Shape& sizes) : View(first, sizes, contiguous_strides(sizes)) {}
  View(T* first, const Shape& sizes, const Shape& steps)
      : data(first), shape(sizes), stride(steps) {}
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_const_v<U>) View(const View<U>& other)
      : data(other.data), shape(other.shape), stride(other.stride) {}

  explicit operator bool() const { return data != nullptr; }

  // The element at an index; with fewer indices than dimensions, the first element of that slice.
  template <class... Index>
  T* at(Index... index) const {
    const int64_t indices[] = {int64_t(index)..., 0};
    T* element = data;
    for (int i = 0; i < int(sizeof...(index)); ++i) element += indices[i] * stride[i];
    return element;
  }
  template <class... Index>
  T& operator()(Index... index) const {
    return *at(index...);
  }

  // The slice [from, from + count) of one dimension.
  View slice(int dimension, int64_t from, int64_t count) const {
    require(dimension < shape.rank() && from >= 0 && count >= 0 && from + count <= shape[dimension],
            "View::slice stays inside the view");
    View out = *this;
    if (data) out.data += from * stride[dimension];
    out.shape[dimension] = count;
    return out;
  }

  bool contiguous() const { return stride == contiguous_strides(shape); }
};

// Fails unless the view was given and has this shape.
template <class T>
void expect_shape(std::string_view name, const View<T>& view, const Shape& expected) {
  if (!view && expected.elements() != 0)
    fail(Fault::argument, name, ": expected shape ", expected, ", found no tensor");
  if (view && view.shape != expected)
    fail(Fault::argument, name, ": expected shape ", expected, ", found ", view.shape);
}

}  // namespace deltasane
