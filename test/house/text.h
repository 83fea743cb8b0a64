// Text functions that the checks share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deltasane::house {

std::vector<std::string_view> lines_of(std::string_view text);  // a last line without \n counts
std::vector<std::string_view> words_of(std::string_view text);  // split at blanks
std::string_view trimmed(std::string_view text);

bool is_word_character(char c);  // [A-Za-z0-9_]

// Whether `word` occurs in `text` with no word character on either side.
bool has_word(std::string_view text, std::string_view word);

// Whether all of `text` matches `pattern`, where * stands for any run of characters.
bool matches(std::string_view text, std::string_view pattern);

// A C++ source in four views of the same length and lines; what a view leaves out is blank.
struct Views {
  std::string code;      // without comments, and with empty literals
  std::string comments;  // only comments
  std::string includes;  // code and literals, without comments
  std::string literals;  // only the contents of literals
};

Views views_of(std::string_view source);

}  // namespace deltasane::house
