// Cyclic redundancy checks of 32 bits, by their reflected polynomial.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace deltasane {

inline constexpr uint32_t ieee_polynomial = 0xEDB88320, castagnoli_polynomial = 0x82F63B78;

template <uint32_t polynomial>
inline constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0u);
    table[i] = crc;
  }
  return table;
}();

// Of bytes that follow others, whose check is `before`.
template <uint32_t polynomial>
constexpr uint32_t crc(std::span<const std::byte> bytes, uint32_t before = 0) {
  uint32_t found = ~before;
  for (const std::byte byte : bytes)
    found = crc_table<polynomial>[(found ^ uint32_t(byte)) & 255] ^ (found >> 8);
  return ~found;
}

}  // namespace deltasane
