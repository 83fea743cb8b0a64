// 16 digits: how checksums are written in text files.
#pragma once

#include <cstdint>
#include <string>

namespace deltasane {

inline std::string hexadecimal(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace deltasane
