#include "format/printable.h"

namespace deltasane {

std::string printable(std::string_view text) {
  constexpr size_t longest = 100;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text) {
    if (out.size() > longest) return out + "...'";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  return out + "'";
}

}  // namespace deltasane
