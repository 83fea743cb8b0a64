// A model small enough for definitions, and a batch with uneven weights whose length no chunk
// divides.
#pragma once

#include <optional>

#include "model/rwkv7/random.h"
#include "model/rwkv7/train/layout.h"
#include "model/train/fixture_batch.h"

namespace deltasane::test {

inline Rwkv7Shape tiny_shape(bool sane) {
  return {.layers = 3,
          .channels = 12,
          .heads = 3,
          .head_size = 4,
          .feed_forward = 20,
          .vocabulary = 11,
          .rank_w = 3,
          .rank_a = 2,
          .rank_v = 4,
          .rank_g = 5,
          .sane = sane};
}

// Heads of 16, the smallest the kernels have; odd sizes elsewhere.
inline Rwkv7Shape small_heads_shape(bool sane, int64_t layers = 3) {
  return {.layers = layers,
          .channels = 48,
          .heads = 3,
          .head_size = 16,
          .feed_forward = 100,
          .vocabulary = 61,
          .rank_w = 8,
          .rank_a = 12,
          .rank_v = 5,
          .rank_g = 17,
          .sane = sane};
}

// Of random numbers, as large as those of a trained model.
inline Parameters random_parameters(const Rwkv7Shape& shape, uint64_t seed,
                                    const std::optional<SaneSettings>& sane) {
  return rwkv7::parameters_of(RandomRwkv7(shape, seed), shape, sane);
}

inline TrainingBatch random_batch(const Rwkv7Shape& shape, int64_t sequences, int64_t time,
                                  uint64_t seed = 1) {
  return random_batch(shape.vocabulary, sequences, time, seed);
}

inline TrainingBatch tiny_batch(const Rwkv7Shape& shape) { return random_batch(shape, 2, 10); }

}  // namespace deltasane::test
