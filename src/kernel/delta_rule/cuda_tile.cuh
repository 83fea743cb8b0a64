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

// x -> tau tanh(x / tau), by odd polynomials below tau / 4 (within 5e-9 before rounding) and 0.9
// tau (1.8e-8).
struct Tangent {
  float tau, inverse;  // 1 / tau within an ulp, which moves tanh by less than half of one
  __device__ explicit Tangent(float t) : tau(t), inverse(about_reciprocal(t)) {}
  __device__ float of_quarter(float x) const {
    const float u = x * inverse, q = u * u;
    const float p = fmaf(q, fmaf(q, -0.051651978f, 0.133261727f), -0.333332777f);
    return fmaf(x * q, p, x);
  }
  __device__ bool small(float x) const { return fabsf(x) < 0.9f * tau; }
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
  // Of all entries of a warp: each(map) calls map(entry) for those of this thread. All go the
  // shortest way there is for the largest.
  template <class Each>
  __device__ void replace(Each&& each) const {
    float largest = 0;
    each([&](float& x) { largest = fmaxf(largest, fabsf(x)); });
    if (__all_sync(~0u, largest < 0.25f * tau))
      each([&](float& x) { x = of_quarter(x); });
    else if (__all_sync(~0u, small(largest)))
      each([&](float& x) { x = of_small(x); });
    else
      each([&](float& x) { x = (*this)(x); });
  }
};

// SANE at a tile's end where entries are tiny, as nearly always they are: |x| < tau / 4. Then
//
//     tau tanh(x / tau) = x (1 + c0 v + c1 v^2 + c2 v^3)      v = (x / tau)^2
//
// within 4e-9 before rounding. For one g, and X = g x, that is X (a - s (s^2 + c)) with s = X^2 +
// b: four instructions instead of five. Entries are multiplied by a decay before, which takes g in.
struct alignas(16) Threshold {
  float b = 0, c = 0, a = 1;
  float below = -HUGE_VALF;  // where s of tiny ones is; it is below 0
  float tau = 0;
  Threshold() = default;
  __device__ explicit Threshold(float t) : tau(t) {
    if (!(t > 1e-37f)) return;  // none is tiny, and g is 1
    // (g tau)^2 = (c2 tau)^(2/7): about, and by a step of Newton's
    float square = power_of_two(fmaf(log2_of(t), 0.285714286f, -1.223212929f));
    const float part = square * square * square * about_reciprocal(t);
    const float off = fmaf(part * -378.065005f, part * square, 1.0f);  // c2^-2
    square = fmaf(square, off * 0.142857143f, square);
    b = square * -0.863583488f, c = square * square * 4.243950254f;
    a = square * square * square * 15.134848194f, below = square * -0.801083488f;
  }
  __device__ float s(float X) const { return fmaf(X, X, b); }
  __device__ float over_X(float s) const { return fmaf(-s, fmaf(s, s, c), a); }
  __device__ float inverse_g() const { return over_X(b); }  // about
};

// g, for decays: the sum of two floats, because its rounding would be the same in every entry and
// every tile, and add up.
struct Factor {
  float most = 1, rest = 0;
  Factor() = default;
  __device__ explicit Factor(const Threshold& t) {
    const double inverse = t.a - double(t.b) * (double(t.b) * t.b + t.c);
    most = reciprocal(float(inverse)), rest = most * float(1 - most * inverse);
  }
  __device__ float times(float x) const { return fmaf(x, most, x * rest); }
};

// A tile's end: with tau 0 one without SANE, where g is 1.
struct Boundary {
  Threshold threshold;
  Factor factor;
  Boundary() = default;
  __device__ explicit Boundary(float tau) : threshold(tau), factor(threshold) {}
};

// SANE of a warp's entries as if all were tiny, so that no lane waits for another one.
struct TinyFirst {
  Threshold threshold;
  uint32_t least = ~0u;  // of the bits of all s, which has the largest s: they are below 0
  __device__ void take(float (&X)[4]) {
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = threshold.s(X[i]);
      bits[i] = __float_as_uint(s);
      X[i] *= threshold.over_X(s);
    }
    // The least of three integers is one instruction.
    least = __vimin3_u32(least, __vimin3_u32(bits[0], bits[1], bits[2]), bits[3]);
  }
  // Whether that was right, in all lanes.
  __device__ bool all_tiny() const {
    return __all_sync(~0u, least > __float_as_uint(threshold.below));
  }
};

}  // namespace deltasane::kernel::cuda
