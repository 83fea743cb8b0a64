#include "base/printable.h"

namespace deltasane {

std::string printable(std::string_view bytes) {
  constexpr size_t longest = 100;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : bytes) {
    if (out.size() > longest) return out + "...'";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\' && c != '\'')
      out += c;
    else
      ((out += "\\x") += digits[byte >> 4]) += digits[byte & 15];
  }
  return out + "'";
}

}  // namespace deltasane
