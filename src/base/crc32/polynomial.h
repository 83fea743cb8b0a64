// Arithmetic of CRC-32: polynomials over {0, 1} modulo P, that of zip. Bit 31 of a word is the
// coefficient of 1, bit 0 that of x^31.
//
// A checksum followed by n zero bytes is multiplied by x^(8 n).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace deltasane::crc {

inline constexpr uint32_t polynomial = 0xedb88320;
inline constexpr uint32_t one = 0x80000000;

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = one; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? polynomial : 0);  // times x
  }
  return product;
}

// x^n modulo P.
constexpr uint32_t power_of_x(uint64_t n) {
  uint32_t power = one, square = one >> 1;
  for (; n != 0; n >>= 1, square = multiply(square, square))
    if (n & 1) power = multiply(power, square);
  return power;
}

// A product with one constant, as four looked-up words.
class Times {
 public:
  constexpr explicit Times(uint32_t constant) {
    for (size_t i = 0; i < table_.size(); ++i)
      for (uint32_t byte = 0; byte < 256; ++byte)
        table_[i][byte] = multiply(constant, byte << (8 * i));
  }
  constexpr uint32_t operator()(uint32_t a) const {
    return table_[0][a & 255] ^ table_[1][(a >> 8) & 255] ^ table_[2][(a >> 16) & 255] ^
           table_[3][a >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

}  // namespace deltasane::crc
