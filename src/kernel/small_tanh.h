// tanh of small numbers without cancellation, for files compiled per instruction set. Forms such as
// (1 - e) / (1 + e), e = exp(-2|u|), subtract numbers near 1 there, and leave four digits for
// u = 1e-4.
//
// tanh(u) = u + u z p(z), z = u^2 <= 1/4, p of degree 3: a minimax fit of tanh(u)/u to within
// 2.1e-8.
#pragma once

#include "kernel/simd.h"

namespace deltasane::kernel {
namespace {

template <int lanes>
struct SmallTanh {
  using Vec = typename Simd<lanes>::Vec;

  static constexpr float p[4] = {-0.333331438964f, 0.133258789614f, -0.0530454945345f,
                                 0.0172414920355f};
  static constexpr float largest_square = 0.25f;  // |u| <= 1/2

  // (tanh(u)/u - 1) / z; `factor` may be p for another scale of z.
  [[gnu::always_inline]] static inline Vec excess(Vec z, const float (&factor)[4] = p) {
    return ((factor[3] * z + factor[2]) * z + factor[1]) * z + factor[0];
  }
};

}  // namespace
}  // namespace deltasane::kernel
