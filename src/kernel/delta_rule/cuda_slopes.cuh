// SANE on the way back: the slopes of a neutralization, by what it left.
#pragma once

#include "kernel/delta_rule/cuda_ptx.cuh"

namespace deltasane::kernel::cuda {

// A neutralization that left the state S = tau x, x = tanh u, makes of G, the gradient after it, G
// sech^2 u before it, and of tau's gradient the sum of G (tanh u - u sech^2 u). With q = x^2 the
// latter slope is x q (2/3 + 2/15 q + 2/35 q^2 + ...), as atanh x = x (1 + q/3 + q^2/5 + ...).
struct BothSlopes {
  float of_state, of_tau;  // the first times the decay w
};
// |x| < 1/4: within 4e-9 before rounding.
__device__ inline BothSlopes slopes_at_tiny(float x, float q, float w) {
  const float p = fmaf(q, fmaf(q, fmaf(q, 0.034435720f, 0.057035519f), 0.133334691f), 0.666666664f);
  return {fmaf(q, -w, w), x * (q * p)};
}
// |x| < 0.6: within 3e-8 before rounding.
__device__ inline BothSlopes slopes_at_small(float x, float q, float w) {
  float p = fmaf(q, 0.031457461f, 0.000996863f);
  p = fmaf(q, p, 0.023760039f);
  p = fmaf(q, p, 0.031265177f);
  p = fmaf(q, p, 0.057173215f);
  p = fmaf(q, p, 0.133332625f);
  p = fmaf(q, p, 0.666666687f);
  return {fmaf(q, -w, w), x * (q * p)};
}
// Any: u = atanh x by two logarithms, each within 2^-22, of numbers that are not quite 0.
__device__ inline BothSlopes slopes_at_any(float x, float, float w) {
  constexpr float almost = 0.99999994f, half_log_of_2 = 0.34657359f;
  const float slope = fmaf(-x, x, 1.0f);
  const float u = log2_of(fmaf(x, almost, 1.0f)) - log2_of(fmaf(x, -almost, 1.0f));
  return {slope * w, fmaf(u * slope, -half_log_of_2, x)};
}
// Calls use(x, q, w -> slopes) with the shortest way there is if no q of this thread, and of the
// others of its warp, is above `largest`.
template <class Use>
__device__ void choose_slopes(float largest, Use&& use) {
  if (__all_sync(~0u, largest < 0.25f * 0.25f))
    use(slopes_at_tiny);
  else if (__all_sync(~0u, largest < 0.6f * 0.6f))
    use(slopes_at_small);
  else
    use(slopes_at_any);
}

}  // namespace deltasane::kernel::cuda
