#include <arm_acle.h>
#include <sys/auxv.h>

#include <cstring>

#include "base/crc32/crc32.h"

namespace deltasane {

std::optional<uint32_t> crc32_instruction(std::span<const std::byte> bytes, uint32_t before) {
  constexpr unsigned long has_crc32 = 1ul << 7;  // HWCAP_CRC32
  static const bool there = (::getauxval(AT_HWCAP) & has_crc32) != 0;
  if (!there) return std::nullopt;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint32_t crc = ~before;
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    crc = __crc32d(crc, word);
  }
  for (; left > 0; ++at, --left) crc = __crc32b(crc, uint8_t(*at));
  return ~crc;
}

}  // namespace deltasane
