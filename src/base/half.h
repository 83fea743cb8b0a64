// 16-bit floating-point numbers as storage: f16 (IEEE binary16) and bf16 (the upper half of a
// float). Both convert from float by rounding to nearest, ties to even, and keep NaN a NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace deltasane {

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit constexpr bf16(float value) : bits(rounded(value)) {}
  explicit constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static constexpr bf16 from_bits(uint16_t bits) {
    bf16 out;
    out.bits = bits;
    return out;
  }

 private:
  static constexpr uint16_t rounded(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return uint16_t((x >> 16) | 0x40u);
    return uint16_t((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
};

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit constexpr f16(float value) : bits(rounded(value)) {}
  explicit constexpr operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest >= 0x400u) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
    const float tiny = float(rest) * 0x1p-24f;  // a subnormal is a multiple of 2^-24, exactly
    return sign ? -tiny : tiny;
  }
  static constexpr f16 from_bits(uint16_t bits) {
    f16 out;
    out.bits = bits;
    return out;
  }

 private:
  static constexpr uint16_t rounded(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint16_t sign = uint16_t((x >> 16) & 0x8000u);
    const uint32_t rest = x & 0x7fffffffu;
    if (rest > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
    if (rest >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and more round to infinity
    if (rest < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24
      const float sum = std::bit_cast<float>(rest) + 0.5f;
      return uint16_t(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
    }
    return uint16_t(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
  }
};

}  // namespace deltasane
