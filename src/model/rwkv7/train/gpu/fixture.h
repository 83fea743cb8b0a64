// A model small enough for definitions, with the heads that GPUs have, and its gradient there.
#pragma once

#include "model/rwkv7/train/fixture.h"
#include "model/rwkv7/train/gpu/gradient_pass.h"
#include "model/train/gpu/fixture_gradient.h"

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

// Sums of `times` equal calls.
template <class Real>
GpuResult gradient_on_gpu(const Rwkv7Shape& shape, const Parameters& model,
                          const TrainingBatch& batch, const LossSettings& settings,
                          Activations activations, int times = 1) {
  return gradient_on_gpu<Real>(model, batch, settings, times, [&](const Gpu& gpu) {
    return rwkv7::make_gpu_gradient_pass<Real>(
        shape, model.sane(), {batch.sequences, batch.time, activations}, gpu);
  });
}

}  // namespace deltasane::test
