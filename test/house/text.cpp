#include "house/text.h"

#include <cctype>

namespace deltasane::house {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view blank = " \t\r";
  for (size_t at = text.find_first_not_of(blank); at != text.npos;) {
    const size_t end = text.find_first_of(blank, at);
    words.push_back(text.substr(at, end == text.npos ? end : end - at));
    at = end == text.npos ? end : text.find_first_not_of(blank, end);
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end])))
      return true;
  }
  return false;
}

bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*')
    return !text.empty() && text[0] == pattern[0] && matches(text.substr(1), pattern.substr(1));
  for (size_t skip = 0; skip <= text.size(); ++skip)
    if (matches(text.substr(skip), pattern.substr(1))) return true;
  return false;
}

}  // namespace deltasane::house
