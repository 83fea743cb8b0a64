// Loops over a row in vectors, for the files compiled per instruction set. Everything is in an
// unnamed namespace, as in simd.h and for its reason.
#pragma once

#include <cstdint>

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {
namespace {

// Calls body(c, some) over `count` floats: `some` at c, all lanes but for the last time.
template <int lanes, class Body>
[[gnu::always_inline]] inline void each_vector(int64_t count, Body body) {
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) body(c, lanes);
  if (c < count) body(c, int(count - c));
}

template <int lanes>
[[gnu::always_inline]] inline typename Simd<lanes>::Vec sigmoid(typename Simd<lanes>::Vec x) {
  const auto e = Simd<lanes>::exp_of_negative(x < 0.0f ? x : -x);
  const auto share = 1.0f / (1.0f + e);
  return x < 0.0f ? e * share : share;
}

template <int lanes>
float sum_of(const float* x, int64_t count) {
  using V = Simd<lanes>;
  typename V::Vec sum = {};
  each_vector<lanes>(count, [&](int64_t c, int some) { sum += V::load_some(x + c, some); });
  return V::sum(sum);
}

// sum of (x - mean)^2
template <int lanes>
float squares_about(const float* x, float mean, int64_t count) {
  using V = Simd<lanes>;
  typename V::Vec sum = {};
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto d = V::load_some(x + c, some) - mean;
    sum += some == lanes ? d * d : V::first(d * d, some);
  });
  return V::sum(sum);
}

}  // namespace
}  // namespace deltasane::kernel::cpu
