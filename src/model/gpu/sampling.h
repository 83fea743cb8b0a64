// Sampling parameters and sampled tokens of a step, on a GPU.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/sampler/cuda.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

class GpuSampling {
 public:
  void upload(std::span<const kernel::SamplingParams> params,
              std::span<const kernel::TokenPenalty> penalties, const Gpu& gpu) {
    copy(params_, params, gpu);
    copy(penalties_, penalties, gpu);
    reserve(sampled_, params.size(), gpu);
    gpu.wait();
  }
  // The rows [from, from + rows) of the step.
  void sample(int64_t from, int64_t rows, int64_t vocabulary, float* logits, const Gpu& gpu) {
    kernel::cuda::sample_rows({rows, vocabulary, logits, params_.data() + from, penalties_.data(),
                               sampled_.data() + from},
                              gpu);
  }
  void download(std::span<kernel::SampledToken> to, const Gpu& gpu) const {
    copy_to_host(to.data(), sampled_.data(), to.size_bytes(), gpu);
    gpu.wait();
  }

 private:
  template <class T>
  static void reserve(GpuTensor<T>& tensor, size_t count, const Gpu& gpu) {
    if (size_t(tensor.elements()) < count)
      tensor = GpuTensor<T>(gpu, {int64_t(2 * count)}, "sampling");
  }
  template <class T>
  static void copy(GpuTensor<T>& tensor, std::span<const T> numbers, const Gpu& gpu) {
    reserve(tensor, numbers.size(), gpu);
    copy_to_gpu(tensor.data(), numbers.data(), numbers.size_bytes(), gpu);
  }

  GpuTensor<kernel::SamplingParams> params_;
  GpuTensor<kernel::TokenPenalty> penalties_;
  GpuTensor<kernel::SampledToken> sampled_;
};

}  // namespace deltasane
