// The ways to compute crc32, for tests and for the choice.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/crc32/crc32.h"

namespace deltasane::crc {

struct Crc32Way {
  std::string_view name;
  uint32_t (*compute)(std::span<const std::byte> bytes, uint32_t before);
};

// With instructions that this processor has, the fastest last.
std::vector<Crc32Way> instruction_ways();

}  // namespace deltasane::crc
