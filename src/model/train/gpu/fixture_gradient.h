// For tests: a model's gradient on a GPU, and how far it is from another.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernel/rounded/cuda.h"
#include "model/train/trainable_model.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::test {

struct GpuResult {
  double loss = 0;
  std::vector<float> gradient;
  friend bool operator==(const GpuResult&, const GpuResult&) = default;
};

inline double distance(std::span<const double> a, std::span<const double> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

// Sums of `times` equal calls of the pass that make(gpu) gives.
template <class Real, class Make>
GpuResult gradient_on_gpu(const Parameters& model, const TrainingBatch& batch,
                          const LossSettings& settings, int times, const Make& make,
                          const GradientReady& ready = {}) {
  const Gpu gpu(0);
  const int64_t n = model.layout().elements();
  GpuTensor<float> parameters(gpu, {n}, "parameters"), gradient(gpu, {n}, "gradient");
  GpuTensor<bf16> rounded(gpu, {n}, "parameters in 16 bits");
  GpuTensor<double> loss(gpu, {1}, "loss");
  parameters.upload(model.all(), gpu);
  kernel::cuda::rounded(parameters.data(), rounded.data(), n, gpu);
  gradient.zero(gpu), loss.zero(gpu);
  const std::unique_ptr<GpuGradientPass<Real>> pass = make(gpu);
  GpuParameters<Real> on_gpu{parameters.data(), nullptr};
  if constexpr (std::is_same_v<Real, bf16>)
    on_gpu.rounded = rounded.data();
  else
    on_gpu.rounded = parameters.data();
  for (int i = 0; i < times; ++i)
    pass->add(on_gpu, batch, settings, gradient.data(), loss.data(), ready);
  GpuResult result{0, std::vector<float>(size_t(n))};
  gradient.download(result.gradient, gpu);
  loss.download({&result.loss, 1}, gpu);
  return result;
}

}  // namespace deltasane::test
