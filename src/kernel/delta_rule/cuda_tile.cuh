// A tile: up to 16 consecutive tokens of one head, as floats in shared memory, with the decay taken
// out of the state.
//
// Inside a tile let W_t = w_0 .. w_t per key channel (W_-1 = 1) and S_t = T_t diag(W_t). Then
//
//     T_t = T_t-1 + (T_t-1 a~_t) b~_t' + v_t k~_t'      y_t = T_t r~_t
//     a~_t = W_t-1 a_t    r~_t = W_t r_t    b~_t = b_t / W_t    k~_t = k_t / W_t
//
// so that a token costs four multiply-adds per entry. 16 decays are at least 0.545^16 = 6e-5.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "base/half.h"
#include "kernel/delta_rule/cuda_ptx.cuh"

namespace deltasane::kernel::cuda {

constexpr int head_size = 64, tile_tokens = 16;

// 8 consecutive numbers as they lie in memory.
template <class Real>
struct Eight;
template <>
struct Eight<float> {
  float4 low = {}, high = {};
  __device__ void load(const float* from) {
    low = __ldg(reinterpret_cast<const float4*>(from));
    high = __ldg(reinterpret_cast<const float4*>(from) + 1);
  }
  __device__ void read(const float* from) {  // of shared memory
    low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
  }
  __device__ void write(float* to) const {
    reinterpret_cast<float4*>(to)[0] = low, reinterpret_cast<float4*>(to)[1] = high;
  }
  __device__ void unpack(float (&x)[8]) const {
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  }
};
template <>
struct Eight<bf16> {
  uint4 bits = {};
  __device__ void load(const bf16* from) { bits = __ldg(reinterpret_cast<const uint4*>(from)); }
  __device__ void read(const bf16* from) { bits = *reinterpret_cast<const uint4*>(from); }
  __device__ void write(bf16* to) const { *reinterpret_cast<uint4*>(to) = bits; }
  __device__ void unpack(float (&x)[8]) const {
    const uint32_t pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(pair[i] << 16);
      x[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
    }
  }
};

__device__ inline void store_one(float* to, float x) { *to = x; }
__device__ inline void store_one(bf16* to, float x) {
  *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(x);
}

// 1 / x within an ulp, and nearer, for x that is neither tiny nor huge; without the branches of a
// division.
__device__ inline float reciprocal(float x) {
  const float y = about_reciprocal(x);
  return fmaf(fmaf(-x, y, 1.0f), y, y);
}

// The tau at a chunk's end: x -> tau tanh(x / tau), by odd polynomials where all |x| / tau are
// below 1/4 or 0.9 (within 5e-9 and 1.8e-8 before rounding).
struct Threshold {
  float tau, inverse;  // 1 / tau within an ulp, which moves tanh by less than half of one
  float tiny_below, tiny_c[3];
  __device__ explicit Threshold(float t) : tau(t), inverse(about_reciprocal(t)) {
    const float q = inverse * inverse;
    tiny_below = t > 1e-4f ? 0.25f * t : 0.0f;  // where all three are finite
    tiny_c[0] = q * -0.333332777f, tiny_c[1] = q * q * 0.133261727f;
    tiny_c[2] = q * q * q * -0.051651978f;
  }
  __device__ bool tiny(float x) const { return fabsf(x) < tiny_below; }
  __device__ bool small(float x) const { return fabsf(x) < 0.9f * tau; }
  // By the square of x.
  __device__ bool is_of_tiny(float square) const { return square < tiny_below * tiny_below; }
  __device__ bool is_of_small(float square) const { return square < (0.9f * tau) * (0.9f * tau); }
  __device__ float of_tiny(float x, float square) const {
    const float q = square;
    return x * fmaf(q, fmaf(q, fmaf(q, tiny_c[2], tiny_c[1]), tiny_c[0]), 1.0f);
  }
  __device__ float of_tiny(float x) const { return of_tiny(x, x * x); }
  __device__ float of_small(float x) const {
    const float u = x * inverse, q = u * u;
    float p = fmaf(q, 0.001303960f, -0.006860055f);
    p = fmaf(q, p, 0.020904126f);
    p = fmaf(q, p, -0.053721491f);
    p = fmaf(q, p, 0.133303598f);
    p = fmaf(q, p, -0.333332121f);
    return x * fmaf(q, p, 1.0f);
  }
  // Above: tau (1 - 2 / (exp(2 |x| / tau) + 1)), the exponential within 2^-22. Both are found and
  // one is taken: where a warp has entries of both kinds, going one way after the other takes
  // longer.
  __device__ float operator()(float x) const {
    constexpr float twice_in_powers = 2.885390082f;  // 2 log2(e)
    const float power = power_of_two(fabsf(x) * (inverse * twice_in_powers));
    const float rest = about_reciprocal(power + 1);  // of a power beyond all numbers: 0
    const float above = copysignf(fmaf(-2 * tau, rest, tau), x), below = of_small(x);
    return small(x) ? below : above;
  }
  // Calls use(x -> tau tanh(x / tau)) with the shortest way there is if no |x| of this thread, and
  // of the others of its warp, is above `largest`.
  template <class Use>
  __device__ void choose(float largest, Use&& use) const {
    if (__all_sync(~0u, tiny(largest)))
      use([&](float x) { return of_tiny(x); });
    else
      choose_above(small(largest), use);
  }
  // Likewise, where some are not tiny; all_small: those of this thread are small.
  template <class Use>
  __device__ void choose_above(bool all_small, Use&& use) const {
    if (__all_sync(~0u, all_small))
      use([&](float x) { return of_small(x); });
    else
      use([&](float x) { return (*this)(x); });
  }
};

}  // namespace deltasane::kernel::cuda
