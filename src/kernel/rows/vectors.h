// Loops over a row in vectors, for the files compiled per instruction set. Everything is in an
// unnamed namespace, as in simd.h and for its reason.
#pragma once

#include <cstdint>

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {
namespace {

// Calls body(c, some) over `count` floats: `some` of them from c on, all lanes but in the last
// call.
template <int lanes, class Body>
[[gnu::always_inline]] inline void each_vector(int64_t count, Body body) {
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) body(c, lanes);
  if (c < count) body(c, int(count - c));
}

template <int lanes>
[[gnu::always_inline]] inline void add_some(float* to, typename Simd<lanes>::Vec value, int some) {
  using V = Simd<lanes>;
  V::store_some(to, V::load_some(to, some) + value, some);
}

}  // namespace
}  // namespace deltasane::kernel::cpu
