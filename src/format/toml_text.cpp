#include "format/toml_text.h"

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"

namespace deltasane {
namespace {

constexpr int max_depth = 32;

// What the library cannot be given, and where; `found` is empty where there is nothing.
struct Obstacle {
  std::string expected, found;
  size_t place = 0;
};

bool ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// The place after a string that begins at `place`; `obstacle` is set where a character that is not
// ASCII follows a backslash, or a backslash and the end of a line.
size_t end_of_string(std::string_view text, size_t place, Obstacle& obstacle) {
  const char quote = text[place];
  const std::string_view three = text.substr(place, 3);
  const bool lines = three == "\"\"\"" || three == "'''";
  const std::string_view end = lines ? three : three.substr(0, 1);
  size_t i = place + end.size();
  for (; i < text.size() && !text.substr(i).starts_with(end); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
      size_t next = i;
      if (lines) next = std::min(text.find_first_not_of(" \t\r\n", i), text.size());
      if (next < text.size() && !ascii(text[next]))
        obstacle = {"an ASCII character after a backslash", "another", next};
      if (next > i) i = next - 1;
    }
    if (!lines && i < text.size() && text[i] == '\n') break;
  }
  i += end.size();
  for (int more = 0; lines && more < 2 && i < text.size() && text[i] == quote; ++more) ++i;
  return i;
}

// Tables that nest too deep: the library builds and removes them by recursion. Characters that are
// not ASCII outside of strings and comments, which TOML does not have either: the library's test for
// white space is undefined for some of them.
Obstacle find_obstacle(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  Obstacle obstacle;
  int brackets = 0, dots = 0;
  size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (i < text.size() && obstacle.found.empty()) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i, obstacle);
      continue;
    }
    if (c == '#') i = std::min(text.find('\n', i), text.size());
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') --brackets;
    if (c == '.') ++dots;
    if (c == '\n' || c == '#' || c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    if (brackets > max_depth || dots >= max_depth)
      obstacle = {cat("TOML nested at most ", max_depth, " deep"), "more", i};
    if (!ascii(c)) obstacle = {"ASCII outside of strings and comments", "another character", i};
    ++i;
  }
  return obstacle;
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& name) {
  if (const Obstacle obstacle = find_obstacle(text); !obstacle.found.empty())
    fail(Fault::file, name, ":", 1 + std::ranges::count(text.substr(0, obstacle.place), '\n'),
         ": expected ", obstacle.expected, ", found ", obstacle.found);
  for (const std::string_view zero : {std::string_view("\\u0000"), std::string_view("\\U00000000")})
    if (text.find(zero) != text.npos)
      fail(Fault::file, name, ": expected text without zero characters, found ", zero);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    fail(Fault::file, name, ":", error.source().begin.line,
         ": expected TOML, found: ", error.description());
  }
}

}  // namespace deltasane
