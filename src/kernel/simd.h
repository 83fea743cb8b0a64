// Vectors of float, one width per instruction set, in the compiler's own vector notation: + - *
// and comparisons work lane by lane, and a * b + c becomes a fused multiply-add where there is one.
//
// For files compiled per instruction set: everything here is in an unnamed namespace, so that the
// linker cannot use a function compiled for a wide instruction set in other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernel/isa.h"

namespace deltasane::kernel {
namespace {

template <int lanes>
struct Vector;
template <>
struct Vector<2> {
  struct Vec {};
  struct Int {};
};
template <>
struct Vector<4> {
  typedef float Vec __attribute__((vector_size(16)));
  typedef int32_t Int __attribute__((vector_size(16)));
  typedef float Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
};
template <>
struct Vector<8> {
  typedef float Vec __attribute__((vector_size(32)));
  typedef int32_t Int __attribute__((vector_size(32)));
  typedef float Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct Vector<16> {
  typedef float Vec __attribute__((vector_size(64)));
  typedef int32_t Int __attribute__((vector_size(64)));
  typedef float Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
};

template <class T>
struct FewType {
  using Vec = T;
};

template <int lanes>
struct Simd {
  using Vec = typename Vector<lanes>::Vec;
  using Int = typename Vector<lanes>::Int;
  using Unaligned = typename Vector<lanes>::Unaligned;

  [[gnu::always_inline]] static inline Vec load(const float* from) {
    return *reinterpret_cast<const Unaligned*>(from);
  }
  [[gnu::always_inline]] static inline void store(float* to, Vec value) {
    *reinterpret_cast<Unaligned*>(to) = value;
  }
  // The first `some` lanes; the others are 0, and are not stored.
  [[gnu::always_inline]] static inline Vec load_some(const float* from, int some) {
    if (some == lanes) return load(from);
    Vec value = {};
    __builtin_memcpy(&value, from, size_t(some) * sizeof(float));
    return value;
  }
  [[gnu::always_inline]] static inline void store_some(float* to, Vec value, int some) {
    if (some == lanes) return store(to, value);
    __builtin_memcpy(to, &value, size_t(some) * sizeof(float));
  }
  [[gnu::always_inline]] static inline Vec first(Vec value, int some) {
    for (int i = some; i < lanes; ++i) value[i] = 0;
    return value;
  }
  [[gnu::always_inline]] static inline Vec splat(float value) { return value - Vec{}; }
  [[gnu::always_inline]] static inline Int bits(Vec value) { return reinterpret_cast<Int>(value); }
  [[gnu::always_inline]] static inline Int larger(Int a, Int b) { return a > b ? a : b; }
  // Lane by lane within [low, high]; a NaN stays a NaN.
  [[gnu::always_inline]] static inline Vec clamp(Vec x, float low, float high) {
    x = x > high ? splat(high) : x;
    return x < low ? splat(low) : x;
  }
  // exp(x) for x <= 0, within 1e-7 of itself; below -87 it is exp(-87). The polynomial is a minimax
  // fit on |f| <= ln 2 / 2, good to 3.1e-9; the rest is rounding.
  [[gnu::always_inline]] static inline Vec exp_of_negative(Vec x) {
    x = x < -87.0f ? splat(-87.0f) : x;
    const Vec whole = __builtin_convertvector(__builtin_convertvector(x * 1.44269504f - 0.5f, Int),
                                              Vec);                     // truncation rounds up
    const Vec f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln 2 in two parts
    Vec p = f * 0.00138145986467f + 0.00836871687973f;
    p = p * f + 0.0416683880453f;
    p = p * f + 0.166665206317f;
    p = p * f + 0.499999934478f;
    p = p * (f * f) + f + 1.0f;
    const Int exponent = (__builtin_convertvector(whole, Int) + 127) << 23;
    return p * reinterpret_cast<Vec>(exponent);
  }
  // Sum of the lanes: halves are added down to four lanes, then (l0 + l1) + (l2 + l3).
  [[gnu::always_inline]] static inline float sum(Vec value) {
    const auto four = folded(value);
    return (four[0] + four[1]) + (four[2] + four[3]);
  }
  // R numbers: four of them are a vector.
  template <int R>
  struct FewNumbers {
    float number[R];
    float operator[](int i) const { return number[i]; }
  };
  template <int R>
  using Few = typename std::conditional_t<R == 4, Vector<4>, FewType<FewNumbers<R>>>::Vec;
  // The sums of R vectors, each in the order of sum().
  template <int R>
  [[gnu::always_inline]] static inline Few<R> sums(const Vec (&value)[R]) {
    if constexpr (R == 4) {
      const auto v0 = folded(value[0]), v1 = folded(value[1]);
      const auto v2 = folded(value[2]), v3 = folded(value[3]);
      const auto v01 =
          __builtin_shufflevector(v0, v1, 0, 4, 2, 6) + __builtin_shufflevector(v0, v1, 1, 5, 3, 7);
      const auto v23 =
          __builtin_shufflevector(v2, v3, 0, 4, 2, 6) + __builtin_shufflevector(v2, v3, 1, 5, 3, 7);
      return __builtin_shufflevector(v01, v23, 0, 1, 4, 5) +
             __builtin_shufflevector(v01, v23, 2, 3, 6, 7);
    } else {
      Few<R> few;
      for (int i = 0; i < R; ++i) few.number[i] = sum(value[i]);
      return few;
    }
  }
  [[gnu::always_inline]] static inline int32_t largest(Int value) {
    if constexpr (lanes == 4) {
      value = larger(value, __builtin_shufflevector(value, value, 2, 3, 0, 1));
      value = larger(value, __builtin_shufflevector(value, value, 1, 0, 3, 2));
      return value[0];
    } else {
      using Half = Simd<lanes / 2>;
      const auto halves = __builtin_bit_cast(Halves, value);
      return Half::largest(Half::larger(halves.low, halves.high));
    }
  }

 private:
  struct Halves {
    typename Vector<lanes / 2>::Int low, high;
  };
  struct FloatHalves {
    typename Vector<lanes / 2>::Vec low, high;
  };
  [[gnu::always_inline]] static inline auto folded(Vec value) {
    if constexpr (lanes == 4) {
      return value;
    } else {
      using Half = Simd<lanes / 2>;
      const auto halves = __builtin_bit_cast(FloatHalves, value);
      return Half::folded(halves.low + halves.high);
    }
  }
  template <int>
  friend struct Simd;
};

}  // namespace
}  // namespace deltasane::kernel
