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
  __device__ void unpack(float (&x)[8]) const {
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  }
  __device__ static void store(float* to, const float (&x)[8]) {
    reinterpret_cast<float4*>(to)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(to)[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
};
template <>
struct Eight<bf16> {
  uint4 bits = {};
  __device__ void load(const bf16* from) { bits = __ldg(reinterpret_cast<const uint4*>(from)); }
  __device__ void unpack(float (&x)[8]) const {
    const uint32_t pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(pair[i] << 16);
      x[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
    }
  }
  __device__ static void store(bf16* to, const float (&x)[8]) {
    uint32_t pair[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
      pair[i] = reinterpret_cast<const uint32_t&>(two);
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
  }
};

__device__ inline void store_floats(float* to, const float (&x)[8]) { Eight<float>::store(to, x); }

__device__ inline void store_one(float* to, float x) { *to = x; }
__device__ inline void store_one(bf16* to, float x) {
  *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(x);
}

// tanh(u) / u for u^2 = q, |u| < small_u: within 1.4e-8 before rounding.
constexpr float small_u = 0.5f;
__device__ inline float tanh_over_u(float q) {
  float p = fmaf(q, 0.01714132f, -0.05298924f);
  p = fmaf(q, p, 0.13324829f);
  p = fmaf(q, p, -0.33333072f);
  return fmaf(q, p, 1.0f);
}

// The tau at a chunk's end, as the kernels use it.
struct Threshold {
  float tau, inverse;
  __device__ explicit Threshold(float t) : tau(t), inverse(1.0f / t) {}
  __device__ float operator()(float s) const {
    const float u = s * inverse;
    return fabsf(u) < small_u ? s * tanh_over_u(u * u) : tau * tanhf(u);
  }
  __device__ bool small(float s) const { return fabsf(s) < small_u * tau; }
  __device__ float of_small(float s) const {
    const float u = s * inverse;
    return s * tanh_over_u(u * u);
  }
};

}  // namespace deltasane::kernel::cuda
