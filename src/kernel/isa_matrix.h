// Products of small matrices in one instruction: 8 bytes of each of two tokens times 8 bytes of
// each of two rows, added to (token 0 row 0, token 0 row 1, token 1 row 0, token 1 row 1).
//
//   Matrices<isa>::present          whether the set has them; if not, it has no other member
//   load(from)                      two lines of 8 bytes: 8 numbers of 8 bits, or 4 of bf16
//   multiply(sums, tokens, rows)    adds the products. Sums of 8-bit numbers are exact. Sums of
//                                   bf16 are float, rounded to odd, and subnormals are 0
//   split(four, high, low)          four floats as sums of two bf16 numbers, with a relative error
//                                   of at most 2^-17; what is not finite is in `high` alone
//
// For files compiled per instruction set: everything here is in an unnamed namespace.
#pragma once

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

#include "kernel/simd.h"

namespace deltasane::kernel {
namespace {

template <Isa isa>
struct Matrices {
  static constexpr bool present = false;
};

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <>
struct Matrices<Isa::neon_mm> {
  static constexpr bool present = true;
  using Vec = Vector<4>::Vec;
  using Int = Vector<4>::Int;

  [[gnu::always_inline]] static inline int8x16_t load(const int8_t* from) { return vld1q_s8(from); }
  [[gnu::always_inline]] static inline bfloat16x8_t load(const uint16_t* from) {
    return vreinterpretq_bf16_u16(vld1q_u16(from));
  }
  [[gnu::always_inline]] static inline Int multiply(Int sums, int8x16_t tokens, int8x16_t rows) {
    return vmmlaq_s32(sums, tokens, rows);
  }
  [[gnu::always_inline]] static inline Vec multiply(Vec sums, bfloat16x8_t tokens,
                                                    bfloat16x8_t rows) {
    return vbfmmlaq_f32(sums, tokens, rows);
  }

  [[gnu::always_inline]] static inline void split(Vec four, uint16_t* high, uint16_t* low) {
    const uint32x4_t size = vreinterpretq_u32_f32(vabsq_f32(four));
    const uint16x4_t finite = vmovn_u32(vcltq_u32(size, vdupq_n_u32(0x7f800000)));
    const uint16x4_t rounded = vreinterpret_u16_bf16(vcvt_bf16_f32(four));
    // A finite number that would round to infinity becomes the number before it: the mask is -1.
    const uint16x4_t infinite = vceq_u16(vand_u16(rounded, vdup_n_u16(0x7fff)), vdup_n_u16(0x7f80));
    const uint16x4_t first = vadd_u16(rounded, vand_u16(infinite, finite));
    const Vec rest = four - vreinterpretq_f32_u32(vshll_n_u16(first, 16));
    vst1_u16(high, first);
    vst1_u16(low, vand_u16(vreinterpret_u16_bf16(vcvt_bf16_f32(rest)), finite));
  }
};
#endif

}  // namespace
}  // namespace deltasane::kernel
