// Sums of products of 8-bit numbers, rows side by side: for each of `width` rows, four weights
// times four inputs are added to a 32-bit sum.
//
//   Dot<isa>::Inputs          32 inputs (all in -127 .. 127), loaded once and used for many rows
//   Dot<isa>::Sums            the sums of `width` rows
//   start(first)              sums that start at `first`; 0 unless there is an `offset`
//   take<c>(sums, w, inputs)  adds the products of inputs 4c .. 4c + 3; w: (row, 4 numbers)
//   total(sums)               as one 32-bit number per row
//   Bytes                     a vector of weights that are 0 .. 127, which `take` takes too, faster on
//                             some processors
//   widen(from, at)           bytes at .. at + width - 1 of 16 as 32-bit numbers
//   upper(a, b, c)            of Bytes: their highest two bits side by side, those of a lowest
//
// PanelDot<isa> does so for many tokens, with weights packed for it, `vectors` of rows side by
// side. Where the processor multiplies unsigned by signed numbers only, `offset` was added to each
// weight, and a sum starts at -offset times the sum of the 32 inputs, which gives the same result.
//
// For files compiled per instruction set: everything here is in an unnamed namespace.
#pragma once

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#include <cstdint>
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernel/simd.h"

namespace deltasane::kernel {
namespace {

struct PlainDot {
  static constexpr int width = 4, vectors = 2, offset = 0;
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  typedef int8_t Signed __attribute__((vector_size(16), aligned(1), may_alias));
  typedef int16_t Wide __attribute__((vector_size(32)));
  typedef int32_t Pairs __attribute__((vector_size(32)));
  using Int = Vector<4>::Int;
  struct Halves {
    Int low, high;
  };
  struct Inputs {
    const int8_t* first;
    explicit Inputs(const int8_t* x) : first(x) {}
  };
  struct Sums {
    Pairs pairs = {};
  };
  [[gnu::always_inline]] static inline Sums start(int32_t) { return {}; }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* w, const Inputs& x) {
    add<c>(sums, __builtin_convertvector(*reinterpret_cast<const Signed*>(w), Wide), x);
  }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, Bytes w, const Inputs& x) {
    add<c>(sums, __builtin_convertvector(w, Wide), x);
  }
  template <int c>
  [[gnu::always_inline]] static inline void add(Sums& sums, Wide weights, const Inputs& x) {
    const int8_t* four = x.first + 4 * c;
    const int16_t a = four[0], b = four[1], m = four[2], n = four[3];
    const Wide inputs{a, b, m, n, a, b, m, n, a, b, m, n, a, b, m, n};
    const Pairs products = reinterpret_cast<Pairs>(weights * inputs);  // at most 128 * 127 each
    sums.pairs += (products >> 16) + ((products << 16) >> 16);
  }
  [[gnu::always_inline]] static inline Int total(const Sums& sums) {
    const Halves halves = __builtin_bit_cast(Halves, sums.pairs);
    return __builtin_shufflevector(halves.low, halves.high, 0, 2, 4, 6) +
           __builtin_shufflevector(halves.low, halves.high, 1, 3, 5, 7);
  }
  [[gnu::always_inline]] static inline Bytes upper(Bytes a, Bytes b, Bytes c) {
    return (a >> 6) | ((b >> 4) & 12) | ((c >> 2) & 48);
  }
  template <class Byte>
  [[gnu::always_inline]] static inline Int widen(const Byte* from, int at) {
    return Int{from[at], from[at + 1], from[at + 2], from[at + 3]};
  }
};

template <Isa isa>
struct Dot : PlainDot {};
template <Isa isa>
struct PanelDot : Dot<isa> {};

#if defined(__ARM_FEATURE_DOTPROD)
struct ArmDot {
  static constexpr int width = 4, vectors = 2, offset = 0;
  using Bytes = uint8x16_t;
  struct Inputs {
    int8x16_t low, high;
    explicit Inputs(const int8_t* x) : low(vld1q_s8(x)), high(vld1q_s8(x + 16)) {}
  };
  struct Sums {
    int32x4_t sum = {};
  };
  [[gnu::always_inline]] static inline Sums start(int32_t) { return {}; }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* w, const Inputs& x) {
    sums.sum = vdotq_laneq_s32(sums.sum, vld1q_s8(w), c < 4 ? x.low : x.high, c % 4);
  }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, Bytes w, const Inputs& x) {
    sums.sum =
        vdotq_laneq_s32(sums.sum, vreinterpretq_s8_u8(w), c < 4 ? x.low : x.high, c % 4);
  }
  [[gnu::always_inline]] static inline Vector<4>::Int total(const Sums& sums) { return sums.sum; }
  [[gnu::always_inline]] static inline Bytes upper(Bytes a, Bytes b, Bytes c) {
    return vshrq_n_u8(vsriq_n_u8(vsriq_n_u8(c, b, 2), a, 4), 2);
  }
  // By a table: an index past its end gives 0.
  [[gnu::always_inline]] static inline Vector<4>::Int widen(const uint8_t* from, int at) {
    const uint8_t none = 255, a = uint8_t(at), b = uint8_t(at + 1), c = uint8_t(at + 2),
                  d = uint8_t(at + 3);
    const uint8x16_t lowest{a, none, none, none, b, none, none, none,
                            c, none, none, none, d, none, none, none};
    return vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(from), lowest));
  }
  [[gnu::always_inline]] static inline Vector<4>::Int widen(const int8_t* from, int at) {
    const uint8_t none = 255, a = uint8_t(at), b = uint8_t(at + 1), c = uint8_t(at + 2),
                  d = uint8_t(at + 3);
    const uint8x16_t highest{none, none, none, a, none, none, none, b,
                             none, none, none, c, none, none, none, d};
    return vshrq_n_s32(vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(from), highest)), 24);
  }
};
template <>
struct Dot<Isa::neon_dot> : ArmDot {};
template <>
struct Dot<Isa::neon_mm> : ArmDot {};
#endif

#if defined(__AVX2__)
struct WideInputs {
  const int8_t* first;
  explicit WideInputs(const int8_t* x) : first(x) {}
  template <int c>
  [[gnu::always_inline]] inline int32_t bits() const {
    int32_t four;
    __builtin_memcpy(&four, first + 4 * c, 4);
    return four;
  }
};
// |w| times x with w's sign: pairs are at most 2 * 128 * 127, which 16 bits hold.
struct AvxDot {
  static constexpr int width = 8, vectors = 1, offset = 0;
  typedef uint8_t Bytes __attribute__((vector_size(32)));
  using Inputs = WideInputs;
  struct Sums {
    __m256i sum = {};
  };
  [[gnu::always_inline]] static inline Sums start(int32_t) { return {}; }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* from, const Inputs& x) {
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_sign_epi8(w, w),
                                               _mm256_sign_epi8(_mm256_set1_epi32(x.bits<c>()), w));
    sums.sum = _mm256_add_epi32(sums.sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  // Pairs are at most 2 * 127 * 127, which 16 bits hold.
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, Bytes w, const Inputs& x) {
    const __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w),
                                               _mm256_set1_epi32(x.bits<c>()));
    sums.sum = _mm256_add_epi32(sums.sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  [[gnu::always_inline]] static inline Bytes upper(Bytes a, Bytes b, Bytes c) {
    return (a >> 6) | ((b >> 4) & 12) | ((c >> 2) & 48);
  }
  [[gnu::always_inline]] static inline Vector<8>::Int widen(const uint8_t* from, int at) {
    return reinterpret_cast<Vector<8>::Int>(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + at))));
  }
  [[gnu::always_inline]] static inline Vector<8>::Int widen(const int8_t* from, int at) {
    return reinterpret_cast<Vector<8>::Int>(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + at))));
  }
  [[gnu::always_inline]] static inline Vector<8>::Int total(const Sums& sums) {
    return reinterpret_cast<Vector<8>::Int>(sums.sum);
  }
};
template <>
struct Dot<Isa::avx2> : AvxDot {};
template <>
struct Dot<Isa::avx512> : AvxDot {};
#endif

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
[[gnu::always_inline]] inline __m256i add_products(__m256i sums, __m256i w, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(sums, w, x);
#else
  return _mm256_dpbusd_avx_epi32(sums, w, x);
#endif
}
struct VnniDot : AvxDot {
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* from, const Inputs& x) {
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    sums.sum = add_products(sums.sum, _mm256_sign_epi8(w, w),
                            _mm256_sign_epi8(_mm256_set1_epi32(x.bits<c>()), w));
  }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, Bytes w, const Inputs& x) {
    sums.sum = add_products(sums.sum, reinterpret_cast<__m256i>(w),
                            _mm256_set1_epi32(x.bits<c>()));
  }
};
template <>
struct Dot<Isa::avx2_dot> : VnniDot {};
template <>
struct Dot<Isa::avx512_dot> : VnniDot {};
template <>
struct Dot<Isa::avx512_amx> : VnniDot {};
template <>
struct PanelDot<Isa::avx2_dot> : VnniDot {
  static constexpr int offset = 128;
  [[gnu::always_inline]] static inline Sums start(int32_t first) {
    return {_mm256_set1_epi32(first)};
  }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* w, const Inputs& x) {
    sums.sum = add_products(sums.sum, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)),
                            _mm256_set1_epi32(x.bits<c>()));
  }
};
#endif

#if defined(__AVX512VNNI__)
template <>
struct PanelDot<Isa::avx512_dot> {
  static constexpr int width = 16, vectors = 3, offset = 128;
  using Inputs = WideInputs;
  struct Sums {
    __m512i sum;
  };
  [[gnu::always_inline]] static inline Sums start(int32_t first) {
    return {_mm512_set1_epi32(first)};
  }
  template <int c>
  [[gnu::always_inline]] static inline void take(Sums& sums, const int8_t* w, const Inputs& x) {
    sums.sum = _mm512_dpbusd_epi32(sums.sum, _mm512_loadu_si512(w), _mm512_set1_epi32(x.bits<c>()));
  }
  [[gnu::always_inline]] static inline Vector<16>::Int total(const Sums& sums) {
    return reinterpret_cast<Vector<16>::Int>(sums.sum);
  }
};
#endif

}  // namespace
}  // namespace deltasane::kernel
