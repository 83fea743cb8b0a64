#include "kernel/matmul/low_bits/pack.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/half.h"

namespace deltasane::kernel {
namespace {

constexpr int group_columns = 4;  // that lie side by side

float half(uint16_t bits) { return float(f16::from_bits(bits)); }
uint32_t byte_of(const std::byte* bytes, int64_t at) { return uint32_t(bytes[at]); }

template <class Bits>
void put_nibble(Bits& bits, int row, int64_t column, uint32_t q) {
  const int64_t c = column / group_columns, k = column % group_columns;
  bits.nibble[c % 4][row][k] |= uint8_t((q & 15) << (c / 4 * 4));
}
template <class Bits>
uint32_t nibble_of(const Bits& bits, int row, int64_t column) {
  const int64_t c = column / group_columns, k = column % group_columns;
  return uint32_t(bits.nibble[c % 4][row][k]) >> (c / 4 * 4) & 15;
}

void put_six(SixBits& bits, int row, int64_t column, uint32_t q) {
  const int64_t c = column / group_columns % 4, k = column % group_columns;
  auto& vector = bits.vector[column / 16];
  if (c < 3) vector[c][row][k] |= uint8_t(q);
  for (int v = 0; v < 3 && c == 3; ++v) vector[v][row][k] |= uint8_t((q >> (2 * v) & 3) << 6);
}
uint32_t six_of(const SixBits& bits, int row, int64_t column) {
  const int64_t c = column / group_columns % 4, k = column % group_columns;
  const auto& vector = bits.vector[column / 16];
  if (c < 3) return vector[c][row][k] & 63;
  uint32_t q = 0;
  for (int v = 0; v < 3; ++v) q |= uint32_t(vector[v][row][k]) >> 6 << (2 * v);
  return q;
}

void pack(const std::byte* from, int row, Q4Block& to) {
  std::memcpy(&to.d[row], from, 2);
  for (int64_t i = 0; i < 32; ++i)
    put_nibble(to.bits[0], row, i, byte_of(from, 2 + i % 16) >> (i / 16 * 4));
}
float element(const Q4Block& b, int row, int64_t column) {
  return half(b.d[row]) * float(int(nibble_of(b.bits[0], row, column)) - 8);
}

// Scales and minimums have 6 bits: bytes 0..3 and 4..7 those of the first four sub-blocks, and
// above them the highest two bits of the last four, whose other bits are in bytes 8..11.
template <class Bits>
void pack(const std::byte* from, int row, AffineBlock<Bits>& to) {
  constexpr bool five = std::is_same_v<Bits, FiveBits>;
  std::memcpy(&to.d[row], from, 2);
  std::memcpy(&to.d_min[row], from + 2, 2);
  const std::byte* const six = from + 4;
  for (int64_t j = 0; j < 4; ++j) {
    to.scale[j][0][row] = uint8_t(byte_of(six, j) & 63);
    to.scale[j][1][row] = uint8_t(byte_of(six, 4 + j) & 63);
    to.scale[4 + j][0][row] = uint8_t((byte_of(six, 8 + j) & 15) | byte_of(six, j) >> 6 << 4);
    to.scale[4 + j][1][row] = uint8_t(byte_of(six, 8 + j) >> 4 | byte_of(six, 4 + j) >> 6 << 4);
  }
  const std::byte* const fifth = from + 16;
  const std::byte* const nibbles = fifth + (five ? 32 : 0);
  for (int64_t i = 0; i < 256; ++i) {
    const int64_t sub = i / 32;
    put_nibble(to.bits[sub], row, i % 32, byte_of(nibbles, i / 64 * 32 + i % 32) >> (sub % 2 * 4));
    if constexpr (five)
      to.bits[sub].fifth[row][i % 4] |= uint8_t((byte_of(fifth, i % 32) >> sub & 1) << (i % 32 / 4));
  }
}
template <class Bits>
float element(const AffineBlock<Bits>& b, int row, int64_t column) {
  const int64_t sub = column / 32;
  uint32_t q = nibble_of(b.bits[sub], row, column % 32);
  if constexpr (std::is_same_v<Bits, FiveBits>)
    q |= (uint32_t(b.bits[sub].fifth[row][column % 4]) >> (column % 32 / 4) & 1) << 4;
  const float scaled = half(b.d[row]) * float(b.scale[sub][0][row]) * float(q);
  return scaled - half(b.d_min[row]) * float(b.scale[sub][1][row]);
}

void pack(const std::byte* from, int row, Q6Block& to) {
  std::memcpy(&to.d[row], from + 208, 2);
  for (int64_t j = 0; j < 16; ++j) to.scale[j][row] = int8_t(from[192 + j]);
  for (int64_t i = 0; i < 256; ++i) {
    const int64_t half_block = i / 128;
    const uint32_t low = byte_of(from, half_block * 64 + i % 64) >> (i % 128 / 64 * 4) & 15;
    const uint32_t high =
        byte_of(from, 128 + half_block * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
    put_six(to.bits[i / 32], row, i % 32, low | high << 4);
  }
}
float element(const Q6Block& b, int row, int64_t column) {
  const uint32_t q = six_of(b.bits[column / 32], row, column % 32);
  return half(b.d[row]) * float(b.scale[column / 16][row]) * float(int(q) - 32);
}

template <class Body>
void with_block(WeightType type, Body&& body) {
  switch (type) {
    case WeightType::q4:
      return body.template operator()<Q4Block>();
    case WeightType::q4_k:
      return body.template operator()<AffineBlock<FourBits>>();
    case WeightType::q5_k:
      return body.template operator()<AffineBlock<FiveBits>>();
    case WeightType::q6_k:
      return body.template operator()<Q6Block>();
    default:
      require(false, "only types of low bits have such blocks");
  }
}

}  // namespace

int64_t gguf_block_bytes(WeightType type) {
  switch (type) {
    case WeightType::q4:
      return 18;
    case WeightType::q4_k:
      return 144;
    case WeightType::q5_k:
      return 176;
    default:
      return 210;
  }
}

void pack_low_bits(WeightType type, const std::byte* gguf, int in_group, std::byte* block) {
  with_block(type, [&]<class Block>() { pack(gguf, in_group, *reinterpret_cast<Block*>(block)); });
}

float low_bit_element(WeightType type, const std::byte* block, int in_group, int64_t column) {
  float found = 0;
  with_block(type, [&]<class Block>() {
    found = element(*reinterpret_cast<const Block*>(block), in_group, column);
  });
  return found;
}

}  // namespace deltasane::kernel
