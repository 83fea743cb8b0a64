// Weights of 4 to 6 bits: blocks of 8 rows by 32 or 256 columns, with the numbers of GGUF's blocks,
// interleaved in the order in which a product reads them. Rows past the end of the matrix are zero.
//
//   q4     w = d (q - 8)          GGUF's Q4_0; 32 columns
//   q4_k   w = d s q - d_min m    Q4_K; 256 columns, s and m for each 32
//   q5_k   w = d s q - d_min m    Q5_K; the same
//   q6_k   w = d s (q - 32)       Q6_K; 256 columns, s for each 16
//
// 32 columns of four bits are `nibble`, whose low halves are columns 4c + k and whose high halves are
// columns 16 + 4c + k; bit c of `fifth` is the highest of column 4c + k. 32 columns of six bits are two
// halves of 16: columns 4c + k for c < 3 are the low six bits of vector c, and the bits above them are
// those of c = 3, lowest first. Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/matmul/q8_block.h"
#include "kernel/matmul/weight_type.h"

namespace deltasane::kernel {

constexpr bool is_low_bits(WeightType type) {
  return is_quantized(type) && type != WeightType::q8;
}

// Numbers for each row and 32 columns that a product has: scales, and a minimum.
constexpr int low_bit_factors(WeightType type) { return type == WeightType::q4 ? 1 : 2; }

// 32 columns.
struct FourBits {
  uint8_t nibble[4][q8_rows][4];
};
struct FiveBits {
  uint8_t nibble[4][q8_rows][4];
  uint8_t fifth[q8_rows][4];
};
struct SixBits {
  uint8_t vector[2][3][q8_rows][4];
};

struct Q4Block {
  static constexpr int columns = 32;
  uint16_t d[q8_rows];  // f16
  FourBits bits[1];
};
template <class Bits>
struct AffineBlock {
  static constexpr int columns = 256;
  uint16_t d[q8_rows], d_min[q8_rows];
  uint8_t scale[8][2][q8_rows];  // of each 32 columns: s, then m
  Bits bits[8];
};
struct Q6Block {
  static constexpr int columns = 256;
  uint16_t d[q8_rows];
  int8_t scale[16][q8_rows];
  SixBits bits[8];
};

template <WeightType type>
struct LowBitBlock;
template <>
struct LowBitBlock<WeightType::q4> {
  using Type = Q4Block;
};
template <>
struct LowBitBlock<WeightType::q4_k> {
  using Type = AffineBlock<FourBits>;
};
template <>
struct LowBitBlock<WeightType::q5_k> {
  using Type = AffineBlock<FiveBits>;
};
template <>
struct LowBitBlock<WeightType::q6_k> {
  using Type = Q6Block;
};
template <WeightType type>
using BlockOf = typename LowBitBlock<type>::Type;

// GGUF keeps the scales of Q4_K and Q5_K in 6 bits each, we in 8: 4 bytes more of 144 and of 176.
static_assert(sizeof(Q4Block) == q8_rows * 18 && sizeof(AffineBlock<FourBits>) == q8_rows * 148 &&
              sizeof(AffineBlock<FiveBits>) == q8_rows * 180 && sizeof(Q6Block) == q8_rows * 210);

constexpr int64_t low_bit_columns(WeightType type) { return type == WeightType::q4 ? 32 : 256; }
constexpr int64_t low_bit_block_bytes(WeightType type) {
  switch (type) {
    case WeightType::q4:
      return sizeof(Q4Block);
    case WeightType::q4_k:
      return sizeof(AffineBlock<FourBits>);
    case WeightType::q5_k:
      return sizeof(AffineBlock<FiveBits>);
    default:
      return sizeof(Q6Block);
  }
}

}  // namespace deltasane::kernel
