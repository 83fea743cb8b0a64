// A tensor in a GPU's memory: packed, last dimension fastest. Its elements are not initialised.
#pragma once

#include <span>
#include <string_view>

#include "base/checked.h"
#include "tensor/cuda/gpu.h"
#include "tensor/tensor.h"

namespace deltasane {

template <class T>
class GpuTensor {
 public:
  GpuTensor() = default;
  GpuTensor(const Gpu& gpu, const Shape& shape, std::string_view purpose)
      : shape_(shape),
        memory_(gpu,
                checked_multiply(checked_product(shape, "tensor shape"), sizeof(T), "tensor size"),
                purpose) {}
  GpuTensor(const Gpu& gpu, const Tensor<T>& host, std::string_view purpose)
      : GpuTensor(gpu, host.shape(), purpose) {
    upload(host.span(), gpu);
  }

  const Shape& shape() const { return shape_; }
  int64_t elements() const { return int64_t(memory_.size() / sizeof(T)); }
  uint64_t bytes() const { return memory_.size(); }
  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }
  explicit operator bool() const { return memory_.data() != nullptr; }

  // Both block until the copy is done.
  void upload(std::span<const T> host, const Gpu& gpu) {
    require(int64_t(host.size()) == elements(),
            "upload: expected as many elements as the tensor has");
    copy_to_gpu(data(), host.data(), host.size_bytes(), gpu);
    gpu.wait();
  }
  void download(std::span<T> host, const Gpu& gpu) const {
    require(int64_t(host.size()) == elements(),
            "download: expected as many elements as the tensor has");
    copy_to_host(host.data(), data(), host.size_bytes(), gpu);
    gpu.wait();
  }
  Tensor<T> on_host(const Gpu& gpu) const {
    Tensor<T> host(shape_);
    download(host.span(), gpu);
    return host;
  }
  void zero(const Gpu& gpu) { zero_on_gpu(data(), bytes(), gpu); }

 private:
  Shape shape_;
  GpuBuffer memory_;
};

}  // namespace deltasane
