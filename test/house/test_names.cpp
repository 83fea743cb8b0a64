#include "house/test_names.h"

#include <algorithm>
#include <cctype>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

bool begins_name(std::string_view text) {
  return !text.empty() && (text[0] == '*' || std::isupper(static_cast<unsigned char>(text[0])));
}

bool is_name(std::string_view word) {
  const size_t dot = word.find('.');
  return dot != word.npos && begins_name(word) && begins_name(word.substr(dot + 1)) &&
         std::ranges::all_of(word, [](char c) {
           return is_word_character(c) || c == '.' || c == '*' || c == '/';
         });
}

// Without Prefix/ and /parameter.
std::string_view pattern_of(std::string_view name) {
  const size_t dot = name.find('.');
  const size_t prefix = name.rfind('/', dot);
  const size_t end = name.find('/', dot);
  const size_t begin = prefix == name.npos ? 0 : prefix + 1;
  return name.substr(begin, std::min(end, name.size()) - begin);
}

}  // namespace

std::set<std::string> tests_in(std::string_view source) {
  std::set<std::string> found;
  for (const std::string_view line : lines_of(source)) {
    const size_t open = line.find('('), comma = line.find(','), close = line.find(')');
    if (!line.starts_with("TEST") || open > comma || comma > close || close == line.npos) continue;
    const std::string_view kind = line.substr(0, open);
    if (kind == "TEST" || kind == "TEST_F" || kind == "TEST_P")
      found.insert(cat(trimmed(line.substr(open + 1, comma - open - 1)), ".",
                       trimmed(line.substr(comma + 1, close - comma - 1))));
  }
  return found;
}

Findings check_test_names(const std::string& document, std::string_view markdown,
                          const std::set<std::string>& tests) {
  Findings findings;
  int number = 0;
  for (const std::string_view line : lines_of(markdown)) {
    ++number;
    for (size_t open = line.find('`'); open != line.npos;) {
      const size_t close = line.find('`', open + 1);
      if (close == line.npos) break;
      const std::string_view word = line.substr(open + 1, close - open - 1);
      const auto is_test = [&](const std::string& test) { return matches(test, pattern_of(word)); };
      if (is_name(word) && std::ranges::none_of(tests, is_test))
        findings.push_back({cat(document, ":", number), cat("names no test of ours: ", word)});
      open = line.find('`', close + 1);
    }
  }
  return findings;
}

}  // namespace deltasane::house
