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

// X = g x -> tau tanh(x / tau): where |x| / tau is below a quarter by an odd polynomial (within
// 5e-9 before rounding), below 1.7 by a quotient (2.1e-8).
struct Tangent {
  float tau, inverse_g;
  float inverse;  // 1 / (g tau), within an ulp or two, which moves tanh by less than one
  static constexpr float quarter = 0.25f, medium = 1.7f;
  __device__ explicit Tangent(float t, float one_over_g = 1)
      : tau(t), inverse_g(one_over_g), inverse(one_over_g * about_reciprocal(t)) {}
  __device__ float square(float X) const {  // of x / tau
    const float u = X * inverse;
    return u * u;
  }
  __device__ float of_quarter(float X) const {
    const float q = square(X);
    const float p = fmaf(q, fmaf(q, -0.051651978f, 0.133261727f), -0.333332777f);
    return fmaf(X * q, p, X) * inverse_g;
  }
  // Of a small entry over / under is small, and so are its errors, which may lean to one side.
  __device__ float of_medium(float X, float q) const {
    const float over = q * fmaf(q, -0.0144525220f * inverse_g, -0.333333037f * inverse_g);
    const float under = fmaf(q, fmaf(q, 0.0154425442f, 0.443353666f), 1.0f);
    return X * fmaf(over, about_reciprocal(under), inverse_g);
  }
  // Any: a polynomial below 0.9 (1.8e-8), and tau (1 - 2 / (exp(2 |x| / tau) + 1)) above, the
  // exponential within 2^-22. Both are found and one is taken: where a warp has entries of both
  // kinds, going one way after the other takes longer.
  __device__ float operator()(float X) const {
    constexpr float twice_in_powers = 2.885390082f;  // 2 log2(e)
    const float power = power_of_two(fabsf(X) * (inverse * twice_in_powers));
    const float rest = about_reciprocal(power + 1);  // of a power beyond all numbers: 0
    const float above = copysignf(fmaf(-2 * tau, rest, tau), X), q = square(X);
    float p = fmaf(q, 0.001303960f, -0.006860055f);
    p = fmaf(q, p, 0.020904126f);
    p = fmaf(q, p, -0.053721491f);
    p = fmaf(q, p, 0.133303598f);
    p = fmaf(q, p, -0.333332121f);
    float below = X * fmaf(q * inverse_g, p, inverse_g);
    find_here(below);  // and not behind a branch
    return q < 0.9f * 0.9f ? below : above;
  }
  // Of all entries of a warp: each(map) calls map(entry) for those of this thread. All go the
  // shortest way there is for the largest.
  template <class Each>
  __device__ void replace(Each&& each) const {
    float largest = 0;
    each([&](float& X) { largest = fmaxf(largest, fabsf(X)); });
    largest *= inverse;
    if (__all_sync(~0u, largest < quarter))
      each([&](float& X) { X = of_quarter(X); });
    else if (__all_sync(~0u, largest < medium))
      each([&](float& X) { X = of_medium(X, square(X)); });
    else
      each([&](float& X) { X = (*this)(X); });
  }
};

// SANE at a tile's end where entries are tiny, as nearly always they are: |x| < tiny_part of tau.
// Then
//
//     tau tanh(x / tau) = x (1 + c0 v + c1 v^2 + c2 v^3)      v = (x / tau)^2
//
// within 1.9e-6 of what SANE takes of x, v / 3: 6e-8 of x at most, before rounding. For one g,
// and X = g x, that is X (a - s (s^2 + c)) with s = X^2 + b: four instructions instead of five.
// Entries are multiplied by a decay before, which takes g in.
constexpr float tiny_part = 0.3125f;
struct alignas(16) Threshold {
  float b = 0, c = 0, a = 1;
  float below = -HUGE_VALF;  // where s of tiny ones is; it is below 0
  float tau = 0;
  Threshold() = default;
  __device__ explicit Threshold(float t) : tau(t) {
    if (!(t > 1e-37f)) return;  // none is tiny, and g is 1
    // (g tau)^2 = (c2 tau)^(2/7): about, and by a step of Newton's
    float square = power_of_two(fmaf(log2_of(t), 0.285714286f, -1.227467263f));
    const float part = square * square * square * about_reciprocal(t);
    const float off = fmaf(part * -385.950185f, part * square, 1.0f);  // c2^-2
    square = fmaf(square, off * 0.142857143f, square);
    b = square * -0.872412330f, c = square * square * 4.265216691f;
    a = square * square * square * 15.260591395f, below = square * -0.774756080f;
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

// How far entries reach: all are below tiny_part or small_part of tau, or any is not. That of
// several is the bits of all.
enum class Reach : uint32_t { tiny = 0, small = 1, any = 3 };
constexpr float small_part = 0.64f;
constexpr float small_part_before = 0.75f;  // SANE, which makes less than that of it

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
// Likewise as if none was beyond 1.7 tau: for a warp that has, or had, others than tiny ones.
struct MediumFirst {
  Tangent tangent;
  int largest = 0;  // of the bits of all squares, which are not below 0
  __device__ void take(float (&X)[4]) {
    int bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float q = tangent.square(X[i]);
      bits[i] = __float_as_int(q);
      X[i] = tangent.of_medium(X[i], q);
    }
    largest = __vimax3_s32(largest, __vimax3_s32(bits[0], bits[1], bits[2]), bits[3]);
  }
  __device__ bool all_below(float part) const {  // of tau
    return __all_sync(~0u, largest < __float_as_int(part * part));
  }
  __device__ bool all_tiny() const { return all_below(tiny_part); }
  __device__ bool all_medium() const { return all_below(Tangent::medium); }
};

}  // namespace deltasane::kernel::cuda
