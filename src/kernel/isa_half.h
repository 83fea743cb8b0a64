// Loads of 16-bit floating-point numbers as vectors of float, with a conversion instruction where
// there is one.
//
// For files compiled per instruction set: everything here is in an unnamed namespace.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#include <cstdint>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernel/simd.h"

namespace deltasane::kernel {
namespace {

template <int lanes>
struct Halves;
template <>
struct Halves<4> {
  typedef uint16_t Short __attribute__((vector_size(8)));
  typedef uint16_t Unaligned __attribute__((vector_size(8), aligned(2), may_alias));
  typedef uint32_t Word __attribute__((vector_size(16)));
};
template <>
struct Halves<8> {
  typedef uint16_t Short __attribute__((vector_size(16)));
  typedef uint16_t Unaligned __attribute__((vector_size(16), aligned(2), may_alias));
  typedef uint32_t Word __attribute__((vector_size(32)));
};
template <>
struct Halves<16> {
  typedef uint16_t Short __attribute__((vector_size(32)));
  typedef uint16_t Unaligned __attribute__((vector_size(32), aligned(2), may_alias));
  typedef uint32_t Word __attribute__((vector_size(64)));
};

template <int lanes>
[[gnu::always_inline]] inline typename Halves<lanes>::Short load_short(const uint16_t* from) {
  return *reinterpret_cast<const typename Halves<lanes>::Unaligned*>(from);
}

// Numbers of 16 bits as the upper halves of 32 bits, the first or the last four of eight.
[[gnu::always_inline]] inline Vector<4>::Vec first_as_upper(Halves<8>::Short eight) {
  const Halves<8>::Short zero = {};
  return reinterpret_cast<Vector<4>::Vec>(
      __builtin_shufflevector(zero, eight, 0, 8, 1, 9, 2, 10, 3, 11));
}
[[gnu::always_inline]] inline Vector<4>::Vec last_as_upper(Halves<8>::Short eight) {
  const Halves<8>::Short zero = {};
  return reinterpret_cast<Vector<4>::Vec>(
      __builtin_shufflevector(zero, eight, 4, 12, 5, 13, 6, 14, 7, 15));
}

// Four numbers, then four zeros.
[[gnu::always_inline]] inline Halves<8>::Short load_low(const uint16_t* from) {
  typedef uint64_t Two __attribute__((vector_size(16)));
  uint64_t four;
  __builtin_memcpy(&four, from, 8);
  return reinterpret_cast<Halves<8>::Short>(Two{four, 0});
}

template <int lanes>
[[gnu::always_inline]] inline typename Vector<lanes>::Vec load_bf16(const uint16_t* from) {
  if constexpr (lanes == 4) {
    return first_as_upper(load_low(from));
  } else {
    using Word = typename Halves<lanes>::Word;
    return reinterpret_cast<typename Vector<lanes>::Vec>(
        __builtin_convertvector(load_short<lanes>(from), Word) << 16);
  }
}

// Without an instruction: shifted into the place of a float the bits are the number times 2^-112,
// subnormals too; infinities and NaN get the largest exponent.
template <int lanes>
[[gnu::always_inline]] inline typename Vector<lanes>::Vec load_f16_by_shifts(const uint16_t* from) {
  using Vec = typename Vector<lanes>::Vec;
  using Word = typename Halves<lanes>::Word;
  const Word bits = __builtin_convertvector(load_short<lanes>(from), Word);
  const Word rest = bits & 0x7fffu;
  const Word finite = reinterpret_cast<Word>(reinterpret_cast<Vec>(rest << 13) * 0x1p112f);
  const Word value = rest >= 0x7c00u ? (rest << 13) | 0x7f800000u : finite;
  return reinterpret_cast<Vec>(value | (bits & 0x8000u) << 16);
}

template <int lanes>
struct HalfInstruction {
  static constexpr bool present = false;
};
#if defined(__aarch64__)
template <>
struct HalfInstruction<4> {
  static constexpr bool present = true;
  [[gnu::always_inline]] static inline Vector<4>::Vec load(const uint16_t* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
  }
};
#elif defined(__F16C__)
template <>
struct HalfInstruction<4> {
  static constexpr bool present = true;
  [[gnu::always_inline]] static inline Vector<4>::Vec load(const uint16_t* from) {
    return _mm_cvtph_ps(_mm_loadu_si64(from));
  }
};
template <>
struct HalfInstruction<8> {
  static constexpr bool present = true;
  [[gnu::always_inline]] static inline Vector<8>::Vec load(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
};
#endif
#if defined(__AVX512F__)
template <>
struct HalfInstruction<16> {
  static constexpr bool present = true;
  [[gnu::always_inline]] static inline Vector<16>::Vec load(const uint16_t* from) {
    // All lanes, as _mm512_cvtph_ps, which begins with a register that GCC 12 calls uninitialized.
    constexpr __mmask16 all = 0xffff;
    return _mm512_maskz_cvtph_ps(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
};
#endif

template <Isa isa, int lanes = lanes_of(isa)>
[[gnu::always_inline]] inline typename Vector<lanes>::Vec load_f16(const uint16_t* from) {
  if constexpr (isa != Isa::portable && HalfInstruction<lanes>::present)
    return HalfInstruction<lanes>::load(from);
  else
    return load_f16_by_shifts<lanes>(from);
}

// Products of f16 numbers that are added to floats, without a conversion.
//
//   HalfProducts<isa>::present       whether the set has them; if not, it has no other member
//   split(eight, high, low)          8 floats below 2^15 as sums of two f16 numbers
//   add(sums, weights, high, low)    adds the products of 8 weights with such sums to four vectors
template <Isa isa>
struct HalfProducts {
  static constexpr bool present = false;
};
#if defined(__ARM_FEATURE_FP16_FML)
template <>
struct HalfProducts<Isa::neon_mm> {
  static constexpr bool present = true;
  [[gnu::always_inline]] static inline void split(const float* eight, uint16_t* high,
                                                  uint16_t* low) {
    for (int i = 0; i < 8; i += 4) {
      const float32x4_t four = vld1q_f32(eight + i);
      const float16x4_t first = vcvt_f16_f32(four);
      vst1_u16(high + i, vreinterpret_u16_f16(first));
      vst1_u16(low + i, vreinterpret_u16_f16(vcvt_f16_f32(four - vcvt_f32_f16(first))));
    }
  }
  [[gnu::always_inline]] static inline void add(Vector<4>::Vec (&sums)[4], const uint16_t* weights,
                                                const uint16_t* high, const uint16_t* low) {
    const float16x8_t w = vreinterpretq_f16_u16(vld1q_u16(weights));
    const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(high));
    const float16x8_t l = vreinterpretq_f16_u16(vld1q_u16(low));
    sums[0] = vfmlalq_low_f16(sums[0], w, h);
    sums[1] = vfmlalq_high_f16(sums[1], w, h);
    sums[2] = vfmlalq_low_f16(sums[2], w, l);
    sums[3] = vfmlalq_high_f16(sums[3], w, l);
  }
};
#endif

}  // namespace
}  // namespace deltasane::kernel
