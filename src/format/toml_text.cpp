#include "format/toml_text.h"

#include <algorithm>

#include "base/error.h"

namespace deltasane {
namespace {

constexpr int max_depth = 32;

// Whether values or dotted keys nest deeper than that: the library's tables are built and removed
// by recursion. What stands in strings and comments does not count.
bool nested_too_deep(std::string_view text) {
  int brackets = 0, dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view rest = text.substr(i), three = rest.substr(0, 3);
      const bool lines = three == "\"\"\"" || three == "\'\'\'";
      const std::string_view end = lines ? three : rest.substr(0, 1);
      for (i += end.size(); i < text.size() && !text.substr(i).starts_with(end); ++i) {
        if (c == '"' && text[i] == '\\') ++i;
        if (!lines && i < text.size() && text[i] == '\n') break;
      }
      i += end.size() - 1;
      continue;
    }
    if (c == '#') i = std::min(text.find('\n', i), text.size());
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') --brackets;
    if (c == '.') ++dots;
    if (c == '\n' || c == '#' || c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    if (brackets > max_depth || dots >= max_depth) return true;
  }
  return false;
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& name) {
  if (nested_too_deep(text))
    fail(Fault::file, name, ": expected TOML nested at most ", max_depth, " deep, found more");
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
