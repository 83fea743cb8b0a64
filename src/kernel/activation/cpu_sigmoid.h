// 1 / (1 + exp(-x)) in vectors, without overflow on either side, for files compiled per instruction
// set. In an unnamed namespace, as in simd.h and for its reason.
#pragma once

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {
namespace {

template <int lanes>
[[gnu::always_inline]] inline typename Simd<lanes>::Vec sigmoid(typename Simd<lanes>::Vec x) {
  const auto e = Simd<lanes>::exp_of_negative(x < 0.0f ? x : -x);
  const auto share = 1.0f / (1.0f + e);
  return x < 0.0f ? e * share : share;
}

}  // namespace
}  // namespace deltasane::kernel::cpu
