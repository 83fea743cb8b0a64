#include "base/crc32/crc32.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/crc32/polynomial.h"
#include "base/crc32/ways.h"

namespace deltasane {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

constexpr uint32_t after_byte(uint32_t crc, uint32_t reversed_polynomial = crc::polynomial) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? reversed_polynomial : 0);
  return crc;
}

constexpr std::array<uint32_t, 256> make_table(uint32_t reversed_polynomial) {
  std::array<uint32_t, 256> table{};
  for (uint32_t b = 0; b < 256; ++b) table[b] = after_byte(b, reversed_polynomial);
  return table;
}

// tables[k][b]: the CRC of byte b followed by k zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables tables{};
  tables[0] = make_table(crc::polynomial);
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 255];
    }
  return tables;
}
constexpr Tables tables = make_tables();

}  // namespace

uint32_t crc32_reference(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const std::byte byte : bytes) crc = after_byte((crc & 255) ^ uint32_t(byte)) ^ (crc >> 8);
  return ~crc;
}

uint32_t crc32_tables(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 255];
  }
  for (const std::byte byte : bytes)
    crc = tables[0][(crc & 255) ^ uint32_t(byte)] ^ (crc >> 8);
  return ~crc;
}

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  static const auto compute = [] {
    const std::vector<crc::Crc32Way> ways = crc::instruction_ways();
    return ways.empty() ? crc32_tables : ways.back().compute;
  }();
  return compute(bytes, before);
}

uint32_t crc32_of_both(uint32_t first, uint32_t second, uint64_t second_bytes) {
  return crc::multiply(crc::power_of_x(8 * second_bytes), first) ^ second;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static constexpr std::array<uint32_t, 256> table = make_table(0x82f63b78);
  uint32_t crc = ~before;
  for (const std::byte byte : bytes) crc = table[(crc ^ uint32_t(byte)) & 255] ^ (crc >> 8);
  return ~crc;
}

}  // namespace deltasane
