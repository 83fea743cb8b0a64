// Primitives of the text scanners. Positions are bytes; text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deltasane::answers {

inline constexpr size_t npos = std::string_view::npos;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Bytes of the white-space character at `at`, 0 if there is none. Knows the Unicode spaces.
size_t space_length(std::string_view text, size_t at);
inline bool is_space(std::string_view text, size_t at) { return space_length(text, at) > 0; }
size_t skip_spaces(std::string_view text, size_t at);
// Start of the white-space character that ends at `at`, or npos.
size_t space_before(std::string_view text, size_t at);

size_t character_length(std::string_view text, size_t at);  // of the UTF-8 character at `at`

inline bool starts(std::string_view text, size_t at, std::string_view word) {
  return at <= text.size() && text.substr(at, word.size()) == word;
}
// The same without regard to the case of ASCII letters; `word` is in lower case.
bool starts_any_case(std::string_view text, size_t at, std::string_view word);

std::string_view trimmed(std::string_view text);
void replace_all(std::string& text, std::string_view from, std::string_view to);

// find() with a cache for mostly increasing positions: queries from every position of a text cost
// one pass in total instead of one pass each.
class Finder {
 public:
  Finder(std::string_view text, std::string_view word) : text_(text), word_(word) {}
  size_t operator()(size_t at) {
    if (at < from_ || at > found_) {
      from_ = at;
      found_ = text_.find(word_, at);
    }
    return found_;
  }

 private:
  std::string_view text_, word_;
  size_t from_ = npos, found_ = 0;
};

}  // namespace deltasane::answers
