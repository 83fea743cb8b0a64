// For tests: the shape of a model that is small but has several of everything.
#pragma once

#include <cstdint>

#include "format/rwkv7_source.h"

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

}  // namespace deltasane::test
