// Floats as bf16 numbers: to nearest, ties to even, NaN stays NaN. With an instruction where there
// is one (AVX512_BF16), for which subnormal numbers are 0. Vectors have 16 floats.
//
//   Bf16<isa>::narrow(a)        16 numbers
//   Bf16<isa>::in_turn(a, b)    the numbers of a, then those of b
//   Bf16<isa>::in_pairs(a, b)   a[0], b[0], a[1], b[1] ...
//   Bf16<isa>::stays_finite(a)  whether no number is one that rounds to infinity, infinite or NaN
//
// For files compiled per instruction set: everything here is in an unnamed namespace.
#pragma once

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "kernel/isa_half.h"

namespace deltasane::kernel {
namespace {

typedef uint16_t Bf16s __attribute__((vector_size(64)));

struct PlainBf16 {
  using Vec = Vector<16>::Vec;
  using Word = Halves<16>::Word;
  using Short = Halves<16>::Short;

  // Of finite numbers, in the upper halves; the lower ones are 0.
  [[gnu::always_inline]] static inline Word nearest(Word bits) {
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  }
  // The bits of a NaN may be in its lower half only.
  [[gnu::always_inline]] static inline Word upper(Vec x) {
    const Word bits = reinterpret_cast<Word>(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits | 0x400000u) & 0xffff0000u : nearest(bits);
  }
  [[gnu::always_inline]] static inline Short narrow(Vec x) {
    return __builtin_convertvector(upper(x) >> 16, Short);
  }
  [[gnu::always_inline]] static inline Bf16s in_turn(Vec a, Vec b) {
    const struct {
      Short low, high;
    } both = {narrow(a), narrow(b)};
    return __builtin_bit_cast(Bf16s, both);
  }
  [[gnu::always_inline]] static inline Bf16s in_pairs(Vec a, Vec b) {
    return reinterpret_cast<Bf16s>(upper(a) >> 16 | upper(b));
  }
  static constexpr int32_t rounds_to_infinity = 0x7f7f8000;  // from here on
  [[gnu::always_inline]] static inline bool stays_finite(Vec x) {
    return Simd<16>::largest(Simd<16>::bits(x) & 0x7fffffff) < rounds_to_infinity;
  }
};

template <Isa isa>
struct Bf16 : PlainBf16 {};

#if defined(__AVX512BF16__)
template <>
struct Bf16<Isa::avx512_amx> {
  using Vec = Vector<16>::Vec;
  using Short = Halves<16>::Short;
  [[gnu::always_inline]] static inline Short narrow(Vec x) {
    return __builtin_bit_cast(Short, _mm512_cvtneps_pbh(x));
  }
  [[gnu::always_inline]] static inline bool stays_finite(Vec x) {
    const auto size = reinterpret_cast<__m512i>(Simd<16>::bits(x) & 0x7fffffff);
    const auto limit = _mm512_set1_epi32(PlainBf16::rounds_to_infinity);
    return _mm512_cmpge_epi32_mask(size, limit) == 0;
  }
  [[gnu::always_inline]] static inline Bf16s in_turn(Vec a, Vec b) {
    return __builtin_bit_cast(Bf16s, _mm512_cvtne2ps_pbh(b, a));
  }
  [[gnu::always_inline]] static inline Bf16s in_pairs(Vec a, Vec b) {
    const Bf16s order = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return reinterpret_cast<Bf16s>(_mm512_permutexvar_epi16(reinterpret_cast<__m512i>(order),
                                                            reinterpret_cast<__m512i>(in_turn(a, b))));
  }
};
#endif

[[gnu::always_inline]] inline void store(uint16_t* to, Bf16s numbers) {
  __builtin_memcpy(to, &numbers, sizeof numbers);
}

}  // namespace
}  // namespace deltasane::kernel
