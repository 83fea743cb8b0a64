// For tests: the shape of a model that is small but has several of everything.
#pragma once

#include <cstdint>

#include "model/rwkv7/checkpoint/source.h"

namespace deltasane::test {

constexpr Rwkv7Shape small_rwkv7(int64_t vocabulary) {
  return {.layers = 2,
          .channels = 64,
          .heads = 2,
          .head_size = 32,
          .feed_forward = 128,
          .vocabulary = vocabulary,
          .rank_w = 8,
          .rank_a = 8,
          .rank_v = 8,
          .rank_g = 8};
}

// With the heads that GPUs have. Ranks and feed_forward are no multiples of what a GPU likes.
constexpr Rwkv7Shape small_gpu_rwkv7() {
  return {.layers = 3,
          .channels = 192,
          .heads = 3,
          .head_size = 64,
          .feed_forward = 200,
          .vocabulary = 61,
          .rank_w = 8,
          .rank_a = 12,
          .rank_v = 5,
          .rank_g = 40};
}

}  // namespace deltasane::test
