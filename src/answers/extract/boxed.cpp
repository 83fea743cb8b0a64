#include "answers/extract/boxed.h"

#include <algorithm>
#include <vector>

#include "answers/scan.h"

namespace deltasane::answers {

namespace {

size_t closing_brace(std::string_view text, size_t opening, size_t limit) {
  int open = 0;
  for (size_t i = opening; i < limit; ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i;
  }
  return npos;
}

size_t count_characters(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Two boxes are parts of one answer if the gap between them is very short, or short and contains a
// conjunction or separator.
bool belong_together(std::string_view gap, std::string_view content, std::string_view next) {
  const size_t length = count_characters(gap);
  if (length < 10) return true;
  if (content == next || length >= 70) return false;
  return gap.find("and") != npos || gap.find("or") != npos || gap.find_first_of(",;") != npos;
}

std::string join_reversed(const std::vector<std::string_view>& pieces) {
  std::string joined;
  for (size_t i = pieces.size(); i-- > 0;) {
    if (!joined.empty() || i + 1 < pieces.size()) joined += ',';
    joined += pieces[i];
  }
  return joined;
}

}  // namespace

std::string boxed_content(std::string_view text, Boxes which) {
  std::vector<std::string_view> contents;  // from the last to the first
  size_t limit = text.size(), next_start = npos;
  size_t boxed = text.rfind("\\boxed"), framed = text.rfind("\\fbox");
  while (boxed != npos || framed != npos) {
    const bool is_boxed = framed == npos || (boxed != npos && boxed > framed);
    const size_t start = is_boxed ? boxed : framed;
    const size_t opening = skip_spaces(text, start + (is_boxed ? 6 : 5));
    if (opening >= limit) break;
    const size_t closing = text[opening] == '{' ? closing_brace(text, opening, limit) : npos;
    if (closing == npos) {
      if (contents.empty()) contents.push_back(text.substr(opening));
      break;
    }
    const std::string_view content = trimmed(text.substr(opening + 1, closing - opening - 1));
    if (which == Boxes::last && next_start != npos &&
        !belong_together(text.substr(closing + 1, next_start - closing - 1), content,
                         contents.back()))
      break;
    contents.push_back(content);
    next_start = limit = start;
    size_t& used = is_boxed ? boxed : framed;
    used = start == 0 ? npos : text.rfind(is_boxed ? "\\boxed" : "\\fbox", start - 1);
  }
  return contents.empty() ? std::string(text) : join_reversed(contents);
}

}  // namespace deltasane::answers
