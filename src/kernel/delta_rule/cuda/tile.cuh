// A tile: up to 16 consecutive tokens of one head, with the decay taken out of the state.
//
// Inside a tile let W_t = w_0 .. w_t per key channel (W_-1 = 1) and S_t = T_t diag(W_t). Then
//
//     T_t = T_t-1 + (T_t-1 a~_t) b~_t' + v_t k~_t'      y_t = T_t r~_t
//     a~_t = W_t-1 a_t    r~_t = W_t r_t    b~_t = b_t / W_t    k~_t = k_t / W_t
//
// so that a token costs four multiply-adds per entry. Decays are above 0.545 (a precondition, see
// delta_rule/cuda.h), and the product of 16 is at least 0.545^16 = 6e-5.
#pragma once

#include "kernel/cuda/approximate_math.cuh"
#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::kernel::cuda {

constexpr int head_size = 64, tile_tokens = 16;

// 1 / x within an ulp, and nearer, for x that is neither tiny nor huge; without the branches of a
// division.
__device__ inline float reciprocal(float x) {
  const float y = reciprocal_approx(x);
  return fmaf(fmaf(-x, y, 1.0f), y, y);
}

}  // namespace deltasane::kernel::cuda
