// S <- tau tanh(S / tau), vectorised, for files compiled per instruction set.
//
// Two approximations, chosen for a few vectors at a time by the largest |u|, u = S / tau:
//   |u| <= 1/2   S + S z p(z), z = u^2, p of degree 3: the usual state, and cheap
//   otherwise    tau u P(z)/Q(z), degrees 4 and 4 on |u| <= 9, then clamped to [-tau, tau]
// Both are minimax fits of tanh(u)/u to within 2.1e-8; docs/numerics.md states the error of the
// whole, and a test measures it. A NaN stays a NaN; an infinite entry becomes tau.
#pragma once

#include <cstdint>

#include "kernel/simd.h"
#include "kernel/small_tanh.h"

namespace deltasane::kernel::cpu {
namespace {

template <int lanes>
struct Neutralize {
  using V = Simd<lanes>;
  using Vec = typename V::Vec;
  using Int = typename V::Int;

  using Small = SmallTanh<lanes>;

  float tau, inverse;
  float inverse_error;      // 1 / tau is inverse (1 + inverse_error)
  float in_s[4];            // p for z = S^2 instead of u^2
  float small_square_in_s;  // 0 where tau is so far from 1 that in_s would overflow or underflow

  explicit Neutralize(float threshold) : tau(threshold), inverse(1.0f / threshold) {
    const bool is_finite = inverse <= 3.4e38f;
    inverse_error = is_finite ? float(1.0 / (double(inverse) * double(tau)) - 1.0) : 0.0f;
    const float inverse_square = inverse * inverse;
    float power = inverse_square;
    for (int i = 0; i < 4; ++i, power *= inverse_square) in_s[i] = Small::p[i] * power;
    small_square_in_s = tau > 1e-3f && tau < 1e4f ? Small::largest_square * tau * tau : 0.0f;
  }

  // tanh(u)
  [[gnu::always_inline]] static inline Vec any_tanh(Vec u) {
    u = V::clamp(u, -9.02f, 9.02f);
    const Vec z = u * u;
    Vec p = 1.331908498e-08f * z + 2.058349163e-05f;
    p = p * z + 0.003494035226f;
    p = p * z + 0.1337971851f;
    p = p * z + 0.999999979f;
    Vec q = 7.762025071e-07f * z + 0.0003283093905f;
    q = q * z + 0.02587107577f;
    q = q * z + 0.4671303375f;
    q = q * z + 1.0f;
    return V::clamp(u * p / q, -1.0f, 1.0f);
  }

  // state <- tau tanh(state scale / tau), `count` floats in place, a multiple of lanes; scale(i) is
  // the scale of the vector at i.
  template <int count, class Scale>
  [[gnu::always_inline]] inline void apply_scaled(float* state, Scale scale) const {
    constexpr int vectors = count / lanes;
    constexpr int group = vectors < 8 ? vectors : 8;
    for (int first = 0; first < count; first += group * lanes) {
      Vec s[group][1];
#pragma GCC unroll 8
      for (int g = 0; g < group; ++g)
        s[g][0] = V::load(state + first + g * lanes) * scale(first + g * lanes);
      store(s, state + first);
    }
  }

  // to <- tau tanh(s / tau)
  template <int P, int X>
  [[gnu::always_inline]] inline void store(const Vec (&s)[P][X], float* to) const {
    const int32_t limit = V::bits(V::splat(small_square_in_s))[0];
    Int most = {};
#pragma GCC unroll 16
    for (int i = 0; i < P * X; ++i)  // squares are ordered as their bits, NaN above all
      most = V::larger(most, V::bits(s[i / X][i % X] * s[i / X][i % X]));
    if (V::largest(most) <= limit) {
#pragma GCC unroll 16
      for (int i = 0; i < P * X; ++i) {
        const Vec one = s[i / X][i % X];
        const Vec z = one * one;
        V::store(to + i * lanes, one + one * z * Small::excess(z, in_s));
      }
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < P * X; ++i) V::store(to + i * lanes, s[i / X][i % X]);
      any<P * X>(to);
    }
  }

  // The same for vectors with entries of any size. Not inlined: its constants would take registers.
  template <int vectors>
  [[gnu::noinline]] void any(float* state) const {
    for (int c = 0; c < vectors * lanes; c += lanes)
      V::store(state + c, tau * any_tanh(V::load(state + c) * inverse));
  }

  // Backward: from the gradient of the neutralized state to that of the state, in place; returns
  // the contribution of these entries to dtau: dS~ (tanh u - u sech^2 u). From e = exp(-2|u|), so
  // that sech^2 is accurate where it is tiny.
  [[gnu::always_inline]] inline Vec gradient(Vec s, Vec& ds) const {
    Vec u = V::clamp(s * inverse, -100.0f, 100.0f);
    u = u * inverse_error + u;
    const Vec size = u < 0.0f ? -u : u;
    const Vec e = V::exp_of_negative(-2.0f * size);
    const Vec share = 1.0f / (1.0f + e), square = share * share;
    const Vec sech2 = 4.0f * e * square;
    const Vec z = u * u;
    // Neither form cancels where it is used.
    const Vec far = square * (1.0f - e * (4.0f * size + e));
    const Vec dtau = z <= 1.0f ? u * z * by_tau(z) : u < 0.0f ? -far : far;
    const Vec part = ds * dtau;
    ds = ds * sech2;
    return part;
  }

  // (tanh u - u sech^2 u) / u^3 for z = u^2 <= 1: a minimax fit to within 4.5e-9 of itself.
  [[gnu::always_inline]] static inline Vec by_tau(Vec z) {
    Vec p = 0.000725777606f * z - 0.00484721275f;
    p = p * z + 0.0165366613f;
    p = p * z - 0.041060206f;
    p = p * z + 0.08796300018f;
    p = p * z - 0.17482926698f;
    p = p * z + 0.323797267f;
    p = p * z - 0.53333286826f;
    return p * z + 0.6666666637f;
  }
};

}  // namespace
}  // namespace deltasane::kernel::cpu
