#include "format/k_quants/k_quants.h"

#include <array>

#include "base/error.h"
#include "base/half.h"

namespace deltasane {
namespace {

constexpr size_t super_block = 256;

// The bytes of one block, as numbers.
class Block {
 public:
  explicit Block(const std::byte* from) : from_(from) {}
  uint32_t byte(size_t at) const { return uint32_t(from_[at]); }
  uint32_t bits(size_t at, uint32_t shift, uint32_t mask) const { return byte(at) >> shift & mask; }
  float half(size_t at) const {
    return float(f16::from_bits(uint16_t(byte(at) | byte(at + 1) << 8)));
  }

 private:
  const std::byte* from_;
};

// Scale and minimum of sub-block j of 8, 6 bits each, in 12 bytes. The first four of both are the
// low bits of bytes 0..7; the others have their low four bits in bytes 8..11 and their high two
// bits above the first four.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum six_bits(const Block& block, size_t at, size_t j) {
  if (j < 4) return {float(block.byte(at + j) & 63), float(block.byte(at + 4 + j) & 63)};
  const size_t k = j - 4;
  return {float(block.bits(at + 8 + k, 0, 15) | block.bits(at + k, 6, 3) << 4),
          float(block.bits(at + 8 + k, 4, 15) | block.bits(at + 4 + k, 6, 3) << 4)};
}

// Elements in the order of the file: a half of 128 has 32 bytes, of which each gives two bits to
// four elements, 32 apart.
uint32_t two_bits(const Block& block, size_t at, size_t i) {
  return block.bits(at + i / 128 * 32 + i % 32, uint32_t(i % 128 / 32 * 2), 3);
}
// A quarter of 64 has 32 bytes: the low halves come first.
uint32_t nibble(const Block& block, size_t at, size_t i) {
  return block.bits(at + i / 64 * 32 + i % 32, uint32_t(i % 64 / 32 * 4), 15);
}

void q2_k(const Block& block, std::span<float> out) {
  const float d = block.half(80), d_min = block.half(82);
  for (size_t i = 0; i < super_block; ++i) {
    const float scale = d * float(block.bits(i / 16, 0, 15));
    out[i] = scale * float(two_bits(block, 16, i)) - d_min * float(block.bits(i / 16, 4, 15));
  }
}

void q3_k(const Block& block, std::span<float> out) {
  const float d = block.half(108);
  for (size_t i = 0; i < super_block; ++i) {
    const size_t s = i / 16;
    const uint32_t low = block.bits(96 + s % 8, s < 8 ? 0 : 4, 15);
    const uint32_t high = block.bits(96 + 8 + s % 4, uint32_t(s / 4 * 2), 3);
    const int scale = int(low | high << 4) - 32;
    const bool third = block.bits(i % 32, uint32_t(i / 32), 1);
    const int q = int(two_bits(block, 32, i)) - (third ? 0 : 4);
    out[i] = d * float(scale) * float(q);
  }
}

void q4_k(const Block& block, std::span<float> out) {
  const float d = block.half(0), d_min = block.half(2);
  for (size_t i = 0; i < super_block; ++i) {
    const auto [scale, minimum] = six_bits(block, 4, i / 32);
    out[i] = d * scale * float(nibble(block, 16, i)) - d_min * minimum;
  }
}

void q5_k(const Block& block, std::span<float> out) {
  const float d = block.half(0), d_min = block.half(2);
  for (size_t i = 0; i < super_block; ++i) {
    const auto [scale, minimum] = six_bits(block, 4, i / 32);
    const uint32_t fifth = block.bits(16 + i % 32, uint32_t(i / 32), 1);
    out[i] = d * scale * float(nibble(block, 48, i) | fifth << 4) - d_min * minimum;
  }
}

void q6_k(const Block& block, std::span<float> out) {
  const float d = block.half(208);
  for (size_t i = 0; i < super_block; ++i) {
    const uint32_t low = block.bits(i / 128 * 64 + i % 64, uint32_t(i % 128 / 64 * 4), 15);
    const int q = int(low | two_bits(block, 128, i) << 4) - 32;
    out[i] = d * float(int8_t(block.byte(192 + i / 16))) * float(q);
  }
}

constexpr std::array<float, 16> unequal_steps{-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

void iq4_nl(const Block& block, std::span<float> out) {
  const float d = block.half(0);
  for (size_t i = 0; i < 32; ++i)
    out[i] = d * unequal_steps[block.bits(2 + i % 16, uint32_t(i / 16 * 4), 15)];
}

void iq4_xs(const Block& block, std::span<float> out) {
  const float d = block.half(0);
  for (size_t i = 0; i < super_block; ++i) {
    const size_t s = i / 32;
    const uint32_t low = block.bits(4 + s / 2, uint32_t(s % 2 * 4), 15);
    const uint32_t high = block.bits(2 + s / 4, uint32_t(s % 4 * 2), 3);
    const uint32_t q = block.bits(8 + s * 16 + i % 16, uint32_t(i % 32 / 16 * 4), 15);
    out[i] = d * float(int(low | high << 4) - 32) * unequal_steps[q];
  }
}

using Dequantize = void (*)(const Block&, std::span<float>);

Dequantize function_of(StoredType type) {
  switch (type) {
    case StoredType::q2_k:
      return q2_k;
    case StoredType::q3_k:
      return q3_k;
    case StoredType::q4_k:
      return q4_k;
    case StoredType::q5_k:
      return q5_k;
    case StoredType::q6_k:
      return q6_k;
    case StoredType::iq4_nl:
      return iq4_nl;
    case StoredType::iq4_xs:
      return iq4_xs;
    default:
      return nullptr;
  }
}

}  // namespace

void dequantize_k_quant(StoredType type, const std::byte* from, std::span<float> out) {
  const Dequantize dequantize = function_of(type);
  require(dequantize, "dequantize_k_quant gets a type of its own");
  const StoredLayout layout = layout_of(type);
  for (size_t at = 0; at < out.size(); at += size_t(layout.block), from += layout.bytes)
    dequantize(Block(from), out.subspan(at, size_t(layout.block)));
}

}  // namespace deltasane
