// Checksums of 32 bits, bit-reversed, as files carry them.
//
//   crc32   polynomial 0x04C11DB7: zip, gzip, PNG, Parquet
//   crc32c  polynomial 0x1EDC6F41 (Castagnoli): TensorBoard's event files
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace deltasane {

// Of bytes that follow others, whose checksum is `before`.
template <uint32_t reversed_polynomial>
uint32_t crc_of(std::span<const std::byte> bytes, uint32_t before) {
  static constexpr std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> filled{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? reversed_polynomial : 0u);
      filled[i] = crc;
    }
    return filled;
  }();
  uint32_t crc = ~before;
  for (const std::byte byte : bytes) crc = table[(crc ^ uint32_t(byte)) & 255] ^ (crc >> 8);
  return ~crc;
}

inline uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0) {
  return crc_of<0xEDB88320u>(bytes, before);
}
inline uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0) {
  return crc_of<0x82F63B78u>(bytes, before);
}

}  // namespace deltasane
