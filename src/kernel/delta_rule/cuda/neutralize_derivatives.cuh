// SANE backward: the derivatives of a neutralization, by the state after it.
//
// A neutralization that left the state S = tau x, x = tanh u, turns G, the gradient after it, into
// G sech^2 u before it, and adds the sum of G (tanh u - u sech^2 u) to tau's gradient. With q = x^2
// the derivative by the state is 1 - q, and that by tau is x q P(q),
//
//     P(q) = (1 - (1 - q) atanh(x) / x) / q = 2/3 + 2/15 q + 2/35 q^2 + ...
//
// which is 1 where a state is all tau. Plain arithmetic, which subtracts, is within 1e-6 of it at
// best; these are, before rounding, within the stated part of themselves.
#pragma once

#include "kernel/delta_rule/cuda/tile.cuh"

namespace deltasane::kernel::cuda {

__device__ inline float state_derivative(float q, float w) { return fmaf(q, -w, w); }  // times w

// P(q) for |x| < tanh(tiny_limit). unit: what q is multiplied by first, the same for many entries.
__device__ inline float tau_derivative_tiny(float q, float unit = 1) {  // 1.3e-6
  return fmaf(q, fmaf(q, 0.061829612f * unit * unit, 0.133168236f * unit), 0.666667520f);
}
// |x| < moderate_limit: shorter than the next one.
constexpr float moderate_limit = 0.547f;
__device__ inline float tau_derivative_moderate(float q) {  // 2.1e-7
  float p = fmaf(q, 0.036270703f, 0.026932041f);
  p = fmaf(q, p, 0.057695927f);
  p = fmaf(q, p, 0.133311603f);
  return fmaf(q, p, 0.666666802f);
}
// |x| < small_limit.
__device__ inline float tau_derivative_small(float q) {  // 1.3e-7
  float p = fmaf(q, 0.040905356f, 0.004820718f);
  p = fmaf(q, p, 0.035400918f);
  p = fmaf(q, p, 0.056765317f);
  p = fmaf(q, p, 0.133347339f);
  return fmaf(q, p, 0.666666583f);
}
// Any x: near 1 it goes as the product of 1 - q and its logarithm, which is 0 for an x that is 1,
// or nearly 1.
__device__ inline float tau_derivative_any(float q) {  // 3e-7
  const float rest = fmaxf(1.0f - q, 1e-30f), product = rest * log2_approx(rest);
  float b = fmaf(q, -0.055035565f, 0.524747500f);
  b = fmaf(q, b, -1.376015252f);
  b = fmaf(q, b, 1.252571955f);
  float p = fmaf(q, -0.254701278f, 1.478960060f);
  p = fmaf(q, p, -2.831321075f);
  p = fmaf(q, p, 1.940395113f);
  p = fmaf(q, p, 0.666666868f);
  return fmaf(b, product, p);
}

}  // namespace deltasane::kernel::cuda
