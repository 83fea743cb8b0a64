#include "base/crc32/crc32.h"

namespace deltasane {

std::optional<uint32_t> crc32_instruction(std::span<const std::byte>, uint32_t) {
  return std::nullopt;
}

}  // namespace deltasane
