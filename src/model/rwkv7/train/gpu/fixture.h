// A model small enough for definitions, with the heads that GPUs have, and its gradient there.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernel/rounded/cuda.h"
#include "model/rwkv7/train/fixture.h"
#include "model/rwkv7/train/gpu/gradient_pass.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::test {

inline Rwkv7Shape gpu_shape(bool sane, int64_t layers = 3) {
  return {.layers = layers,
          .channels = 128,
          .heads = 2,
          .head_size = 64,
          .feed_forward = 192,
          .vocabulary = 61,
          .rank_w = 8,
          .rank_a = 16,
          .rank_v = 8,
          .rank_g = 24,
          .sane = sane};
}

struct GpuResult {
  double loss = 0;
  std::vector<float> gradient;
  friend bool operator==(const GpuResult&, const GpuResult&) = default;
};

// Sums of `times` equal calls.
template <class Real>
GpuResult gradient_on_gpu(const Rwkv7Shape& shape, const Parameters& model,
                          const TrainingBatch& batch, const LossSettings& settings,
                          Activations activations, int times = 1) {
  const Gpu gpu(0);
  const int64_t n = model.layout().elements();
  GpuTensor<float> parameters(gpu, {n}, "parameters"), gradient(gpu, {n}, "gradient");
  GpuTensor<bf16> rounded(gpu, {n}, "parameters in 16 bits");
  GpuTensor<double> loss(gpu, {1}, "loss");
  parameters.upload(model.all(), gpu);
  kernel::cuda::rounded(parameters.data(), rounded.data(), n, gpu);
  gradient.zero(gpu), loss.zero(gpu);
  const auto pass = rwkv7::make_gpu_gradient_pass<Real>(
      shape, model.sane(), {batch.sequences, batch.time, activations}, gpu);
  GpuParameters<Real> on_gpu{parameters.data(), nullptr};
  if constexpr (std::is_same_v<Real, bf16>)
    on_gpu.rounded = rounded.data();
  else
    on_gpu.rounded = parameters.data();
  for (int i = 0; i < times; ++i) pass->add(on_gpu, batch, settings, gradient.data(), loss.data());
  GpuResult result{0, std::vector<float>(size_t(n))};
  gradient.download(result.gradient, gpu);
  loss.download({&result.loss, 1}, gpu);
  return result;
}

}  // namespace deltasane::test
