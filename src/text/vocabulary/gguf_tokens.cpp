#include "text/vocabulary/gguf_tokens.h"

#include <algorithm>
#include <utility>

#include "text/vocabulary/cursor.h"

namespace deltasane {
namespace {

// [PAD65530]
bool is_padding(std::string_view token) {
  if (!token.starts_with("[PAD") || !token.ends_with(']')) return false;
  const std::string_view number = token.substr(4, token.size() - 5);
  return !number.empty() &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string unescape(Cursor cursor) {
  std::string bytes;
  while (!cursor.done()) {
    const char c = cursor.take("a byte");
    if (c != '\\') {
      bytes += c;
      continue;
    }
    const char name = cursor.take("a character after the backslash");
    if (name == 't')
      bytes += '\t';
    else if (name == 'n')
      bytes += '\n';
    else if (name == 'r')
      bytes += '\r';
    else if (name == 'x')
      bytes += char(cursor.hexadecimal(2));
    else
      bytes += name;
  }
  return bytes;
}

}  // namespace

Vocabulary parse_gguf_tokens(std::span<const std::string> tokens, std::string_view name) {
  std::vector<std::string> bytes(tokens.size());
  for (size_t id = 1; id < tokens.size(); ++id)
    if (!is_padding(tokens[id]))
      bytes[id] = unescape(Cursor(tokens[id], {name, "token", int64_t(id)}));
  return Vocabulary(std::move(bytes), name);
}

std::string gguf_escaped(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = uint8_t(c);
    if (c == '\t')
      text += "\\t";
    else if (c == '\n')
      text += "\\n";
    else if (c == '\r')
      text += "\\r";
    else if (c == '\\' || c == '\'')
      (text += '\\') += c;
    else if (byte < 0x20 || byte >= 0x7f)
      ((text += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else
      text += c;
  }
  return text;
}

}  // namespace deltasane
