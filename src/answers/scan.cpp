#include "answers/scan.h"

#include <cstdint>

namespace deltasane::answers {

size_t character_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const auto byte = uint8_t(text[at]);
  const size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  return std::min(length, text.size() - at);
}

size_t space_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const auto c = uint8_t(text[at]);
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  if (c == 0xC2 && at + 1 < text.size())
    return text[at + 1] == char(0x85) || text[at + 1] == char(0xA0) ? 2 : 0;
  if (c < 0xE1 || c > 0xE3 || at + 2 >= text.size()) return 0;
  const unsigned code =
      (c & 15u) << 12 | (uint8_t(text[at + 1]) & 63u) << 6 | (uint8_t(text[at + 2]) & 63u);
  const bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
                     code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
  return space ? 3 : 0;
}

size_t skip_spaces(std::string_view text, size_t at) {
  for (size_t length; (length = space_length(text, at)) > 0;) at += length;
  return at;
}

size_t space_before(std::string_view text, size_t at) {
  for (size_t length = 1; length <= 3 && length <= at; ++length)
    if (space_length(text, at - length) == length) return at - length;
  return npos;
}

bool starts_any_case(std::string_view text, size_t at, std::string_view word) {
  if (at > text.size() || text.size() - at < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = text[at + i];
    if ((c >= 'A' && c <= 'Z' ? char(c + 32) : c) != word[i]) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(skip_spaces(text, 0));
  for (size_t start; (start = space_before(text, text.size())) != npos;)
    text = text.substr(0, start);
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == npos) return;
  std::string result;
  size_t done = 0;
  for (; at != npos; at = text.find(from, done)) {
    result.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = result.append(text, done);
}

}  // namespace deltasane::answers
