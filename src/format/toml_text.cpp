#include "format/toml_text.h"

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "base/printable.h"

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

// Of bare keys, numbers, dates and words.
bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-+.:").find(c) != std::string_view::npos;
}

// The brackets around a place, and whether a value is there, or a key.
class Place {
 public:
  void pass(char c) {
    if (c == '=') value_ = true;
    if (c == '\n' && open_.empty()) value_ = false;
    if (c == '[' || c == '{') open_ += c;
    if (c == '{') value_ = false;
    if ((c == ']' || c == '}') && !open_.empty()) open_.pop_back(), value_ = true;
    if (c == ',') value_ = open_.empty() || open_.back() == '[';
  }
  // A quoted part of a key follows a dot, and an equals sign a key.
  bool may_follow(char bare_before, char c) const {
    if (c == '=') return !value_;
    const bool quote = c == '"' || c == '\'';
    return !(quote || c == '[' || c == '{') || (quote && !value_ && bare_before == '.');
  }
  int depth() const { return int(open_.size()); }

 private:
  std::string open_;
  bool value_ = false;
};

// Tables that nest too deep: the library builds and removes them by recursion. Characters that are
// not ASCII where it looks for white space, as its test is undefined for some of them: TOML has them
// in strings and comments only. A value that is wrong it reads on to its end, through what would be
// a string elsewhere: so no string begins within one, nor after blanks or an equals sign within one.
Obstacle find_obstacle(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF", marks = " \t\r\n=,[]{}#";
  Obstacle obstacle;
  Place place;
  int dots = 0;
  bool after_bare = false;
  char before = '\n';  // the last one that is no blank
  size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (i < text.size() && obstacle.found.empty()) {
    const char c = text[i];
    if (after_bare && !place.may_follow(before, c))
      obstacle = {"a comma or the end of the line after a value", printable({&c, 1}), i};
    if (c != ' ' && c != '\t') after_bare = bare(c), before = c;
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i, obstacle);
      continue;
    }
    if (c == '#') i = std::min(text.find('\n', i), text.size());
    place.pass(c);
    if (c == '.') ++dots;
    if (c == '\n' || c == '#' || c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    if (place.depth() > max_depth || dots >= max_depth)
      obstacle = {cat("TOML nested at most ", max_depth, " deep"), "more", i};
    if (!ascii(c))
      obstacle = {"ASCII outside of strings and comments", "another character", i};
    else if (!bare(c) && marks.find(c) == marks.npos)
      obstacle = {"keys, values and = , [ ] { } # outside of strings", printable({&c, 1}), i};
    if (c != '#') ++i;
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

std::string toml_value_text(const toml::node& value) {
  if (const auto text = value.value_exact<std::string>()) return cat("the text ", printable(*text));
  if (const auto whole = value.value_exact<int64_t>()) return cat("the whole number ", *whole);
  if (const auto number = value.value_exact<double>()) return cat("the number ", *number);
  if (const auto truth = value.value_exact<bool>()) return *truth ? "true" : "false";
  return value.is_array() ? "a list" : value.is_table() ? "a table" : "a date or a time";
}

}  // namespace deltasane
