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
// |x| < 1/4: within 4e-7 of itself before rounding, where plain arithmetic, which subtracts, is
// within 1e-6 at best.
__device__ inline BothSlopes slopes_at_tiny(float x, float q, float w) {
  const float p = fmaf(q, fmaf(q, 0.060265943f, 0.133258897f), 0.666666928f);
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
// Calls use_tiny(x, q, w -> slopes), or use_larger with the shorter way of two, if no q of this
// thread, and of the others of its warp, is above `largest`.
template <class UseTiny, class UseLarger>
__device__ void choose_slopes(float largest, UseTiny&& use_tiny, UseLarger&& use_larger) {
  if (__all_sync(~0u, largest < 0.25f * 0.25f))
    use_tiny(slopes_at_tiny);
  else if (__all_sync(~0u, largest < 0.6f * 0.6f))
    use_larger(slopes_at_small);
  else
    use_larger(slopes_at_any);
}

}  // namespace deltasane::kernel::cuda
