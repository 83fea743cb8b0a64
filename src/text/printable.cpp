#include "text/printable.h"

#include <cstdint>

namespace deltasane {

std::string printable(std::string_view bytes) {
  constexpr size_t longest = 40;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "'";
  for (const char c : bytes.substr(0, longest)) {
    const auto byte = uint8_t(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\' && c != '\'')
      text += c;
    else
      ((text += "\\x") += digits[byte >> 4]) += digits[byte & 15];
  }
  text += bytes.size() > longest ? "'..." : "'";
  return text;
}

}  // namespace deltasane
