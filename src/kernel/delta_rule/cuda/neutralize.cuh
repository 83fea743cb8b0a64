// SANE of a state's entries, x -> tau tanh(x / tau), by several approximations: the smaller the
// largest entry of a warp, the shorter the one it takes. docs/numerics.md states their errors.
#pragma once

#include <cstdint>

#include "kernel/delta_rule/cuda/tile.cuh"

namespace deltasane::kernel::cuda {

// X = g x -> tau tanh(x / tau): where |x| / tau is below a quarter by an odd polynomial (within
// 5e-9 before rounding), below 1.7 by a quotient (2.1e-8).
struct Tanh {
  float tau, inverse_g;
  float inverse;  // 1 / (g tau), within an ulp or two, which moves tanh by less than one
  static constexpr float quarter = 0.25f, medium = 1.7f;
  __device__ explicit Tanh(float t, float one_over_g = 1)
      : tau(t), inverse_g(one_over_g), inverse(one_over_g * reciprocal_approx(t)) {}
  __device__ float square(float X) const {  // of x / tau
    const float u = X * inverse;
    return u * u;
  }
  __device__ float below_quarter(float X) const {
    const float q = square(X);
    const float p = fmaf(q, fmaf(q, -0.051651978f, 0.133261727f), -0.333332777f);
    return fmaf(X * q, p, X) * inverse_g;
  }
  // For a small entry numerator / denominator is small, and so are its errors, which may be biased.
  __device__ float below_medium(float X, float q) const {
    const float numerator = q * fmaf(q, -0.0144525220f * inverse_g, -0.333333037f * inverse_g);
    const float denominator = fmaf(q, fmaf(q, 0.0154425442f, 0.443353666f), 1.0f);
    return X * fmaf(numerator, reciprocal_approx(denominator), inverse_g);
  }
  // Any entry: a polynomial below 0.9 (1.8e-8), and tau (1 - 2 / (exp(2 |x| / tau) + 1)) above, the
  // exponential within 2^-22. Both are computed and one is selected: a warp with entries of both
  // kinds would take longer to diverge.
  __device__ float operator()(float X) const {
    constexpr float two_log2_e = 2.885390082f;  // 2 log2(e)
    const float power = exp2_approx(fabsf(X) * (inverse * two_log2_e));
    const float rest = reciprocal_approx(power + 1);  // of an infinite power: 0
    const float above = copysignf(fmaf(-2 * tau, rest, tau), X), q = square(X);
    float p = fmaf(q, 0.001303960f, -0.006860055f);
    p = fmaf(q, p, 0.020904126f);
    p = fmaf(q, p, -0.053721491f);
    p = fmaf(q, p, 0.133303598f);
    p = fmaf(q, p, -0.333332121f);
    float below = X * fmaf(q * inverse_g, p, inverse_g);
    optimization_barrier(below);  // not behind a branch
    return q < 0.9f * 0.9f ? below : above;
  }
  // All entries of a warp: each(map) calls map(entry) for those of this thread. All take the
  // shortest approximation that is valid for the largest.
  template <class Each>
  __device__ void apply(Each&& each) const {
    float largest = 0;
    each([&](float& X) { largest = fmaxf(largest, fabsf(X)); });
    largest *= inverse;
    if (__all_sync(~0u, largest < quarter))
      each([&](float& X) { X = below_quarter(X); });
    else if (__all_sync(~0u, largest < medium))
      each([&](float& X) { X = below_medium(X, square(X)); });
    else
      each([&](float& X) { X = (*this)(X); });
  }
};

// SANE at a tile's end where entries are tiny, |x| < tiny_limit tau, as they nearly always are.
// Then
//
//     tau tanh(x / tau) = x (1 + c0 v + c1 v^2 + c2 v^3)      v = (x / tau)^2
//
// within 1.9e-6 of what SANE takes of x, v / 3: 6e-8 of x at most, before rounding. For one g,
// and X = g x, that is X (a - s (s^2 + c)) with s = X^2 + b: four instructions instead of five.
// Entries are multiplied by a decay before, which takes g in.
constexpr float tiny_limit = 0.3125f;
struct alignas(16) TinyPolynomial {
  float b = 0, c = 0, a = 1;
  float below = -HUGE_VALF;  // the bound of s for tiny entries; s is negative
  float tau = 0;
  TinyPolynomial() = default;
  __device__ explicit TinyPolynomial(float t) : tau(t) {
    if (!(t > 1e-37f)) return;  // no entry is tiny, and g is 1
    // (g tau)^2 = (c2 tau)^(2/7): an estimate, and a Newton step
    float square = exp2_approx(fmaf(log2_approx(t), 0.285714286f, -1.227467263f));
    const float part = square * square * square * reciprocal_approx(t);
    const float error = fmaf(part * -385.950185f, part * square, 1.0f);  // c2^-2
    square = fmaf(square, error * 0.142857143f, square);
    b = square * -0.872412330f, c = square * square * 4.265216691f;
    a = square * square * square * 15.260591395f, below = square * -0.774756080f;
  }
  __device__ float s(float X) const { return fmaf(X, X, b); }
  __device__ float over_X(float s) const { return fmaf(-s, fmaf(s, s, c), a); }
  __device__ float inverse_g() const { return over_X(b); }  // about
};

// g, for decays: the sum of two floats, because its rounding would be the same in every entry and
// every tile, and accumulate.
struct DecayFactor {
  float high = 1, low = 0;
  DecayFactor() = default;
  __device__ explicit DecayFactor(const TinyPolynomial& t) {
    const double inverse = t.a - double(t.b) * (double(t.b) * t.b + t.c);
    high = reciprocal(float(inverse)), low = high * float(1 - high * inverse);
  }
  __device__ float times(float x) const { return fmaf(x, high, x * low); }
};

// The end of a tile; tau 0: without SANE, and g is 1.
struct Boundary {
  TinyPolynomial tiny;
  DecayFactor factor;
  Boundary() = default;
  __device__ explicit Boundary(float tau) : tiny(tau), factor(tiny) {}
};

// The magnitude class of entries after SANE: all below tiny_limit or small_limit of tau, or any.
// The class of several sets is the bitwise or of theirs.
enum class Magnitude : uint32_t { tiny = 0, small = 1, any = 3 };
constexpr float small_limit = 0.64f;
constexpr float small_limit_before = 0.75f;  // before SANE, whose result is below small_limit

// SANE of a warp's entries, speculating that all are tiny, so that no lane waits for another.
struct SpeculateTiny {
  TinyPolynomial tiny;
  uint32_t least = ~0u;  // of the bits of all s; s is negative, so it belongs to the largest s
  __device__ void apply(float (&X)[4]) {
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = tiny.s(X[i]);
      bits[i] = __float_as_uint(s);
      X[i] *= tiny.over_X(s);
    }
    // The minimum of three integers is one instruction.
    least = __vimin3_u32(least, __vimin3_u32(bits[0], bits[1], bits[2]), bits[3]);
  }
  // Whether that was right, in all lanes.
  __device__ bool all_tiny() const { return __all_sync(~0u, least > __float_as_uint(tiny.below)); }
};
// Likewise, speculating that none is beyond 1.7 tau: for a warp that has, or had, larger entries
// than tiny ones.
struct SpeculateMedium {
  Tanh tanh;
  int largest = 0;  // of the bits of all squares, which are not negative
  __device__ void apply(float (&X)[4]) {
    int bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float q = tanh.square(X[i]);
      bits[i] = __float_as_int(q);
      X[i] = tanh.below_medium(X[i], q);
    }
    largest = __vimax3_s32(largest, __vimax3_s32(bits[0], bits[1], bits[2]), bits[3]);
  }
  __device__ bool all_below(float limit) const {  // of |x| / tau
    return __all_sync(~0u, largest < __float_as_int(limit * limit));
  }
  __device__ bool all_tiny() const { return all_below(tiny_limit); }
  __device__ bool all_medium() const { return all_below(Tanh::medium); }
};

}  // namespace deltasane::kernel::cuda
