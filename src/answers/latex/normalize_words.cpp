// One pass over the text that replaces words and commands; at each place the first rule that
// applies wins.
#include <initializer_list>

#include "answers/latex/normalize.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

struct Replacement {
  size_t length = 0;
  std::string_view by;
};

size_t command_with(std::string_view text, size_t at, std::string_view stem,
                    std::initializer_list<std::string_view> endings) {
  if (!starts(text, at, stem)) return 0;
  for (const std::string_view ending : endings)
    if (starts(text, at + stem.size(), ending)) return stem.size() + ending.size();
  return 0;
}

size_t any_word(std::string_view text, size_t at, std::initializer_list<std::string_view> words) {
  return command_with(text, at, "", words);
}

// {,} with white space anywhere: a comma that TeX sets without a gap.
size_t braced_comma(std::string_view text, size_t at, size_t after_spaces) {
  if (!starts(text, after_spaces, "{")) return 0;
  const size_t comma = skip_spaces(text, after_spaces + 1);
  if (!starts(text, comma, ",")) return 0;
  const size_t close = skip_spaces(text, comma + 1);
  return starts(text, close, "}") ? close + 1 - at : 0;
}

size_t conjunction(std::string_view text, size_t at) {
  const size_t word = skip_spaces(text, at + (text[at] == ','));
  if (at == 0 || !is_letter(text[at - 1])) {
    const size_t length = any_word(text, word, {"and", "or"});
    if (length && (word + length >= text.size() || !is_letter(text[word + length])))
      return word + length - at;
  }
  if (!starts(text, word, "\\text{")) return 0;
  const size_t inner = skip_spaces(text, word + 6);
  const size_t length = any_word(text, inner, {"and", "or"});
  if (!length) return 0;
  const size_t close = skip_spaces(text, inner + length);
  return starts(text, close, "}") ? close + 1 - at : 0;
}

size_t percent_word(std::string_view text, size_t at, size_t after_spaces) {
  for (const std::string_view word : {"percentage", "percent", "pct"}) {
    if (starts(text, after_spaces, word)) return after_spaces + word.size() - at;
    if (starts(text, at, "\\text{") && starts(text, at + 6, word) &&
        starts(text, at + 6 + word.size(), "}"))
      return word.size() + 7;
  }
  return 0;
}

Replacement replacement_at(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '\\') {
    if (const size_t n = command_with(text, at, "\\math", {"rm", "it", "bf"})) return {n, "\\text"};
    if (const size_t n = command_with(text, at, "\\text", {"normal", "bf", "it", "rm"}))
      return {n, "\\text"};
    if (const size_t n = any_word(text, at, {"\\dfrac", "\\tfrac", "\\cfrac"}))
      return {n, "\\frac"};
  }
  const size_t space = space_length(text, at);
  if (space && starts(text, at + space, ".")) return {space + 1, " 0."};
  if (starts(text, at, "{.")) return {2, "{0."};
  if (starts(text, at, "~=")) return {2, "\\approx"};
  const size_t after_spaces = space ? skip_spaces(text, at) : at;
  if (const size_t n = braced_comma(text, at, after_spaces)) return {n, ","};
  if (c == ',' || c == 'a' || c == 'o' || c == '\\' || space)
    if (const size_t n = conjunction(text, at)) return {n, ","};
  if (c == '\\' && (at == 0 || text[at - 1] != '\\'))
    if (const size_t n = space_length(text, at + 1)) return {1 + n, " "};
  if (starts(text, at, "infinity")) return {8, "\\infty"};
  if (starts(text, at + (c == ','), "\\ldots")) return {size_t(6 + (c == ',')), " "};
  if (const size_t n = percent_word(text, at, after_spaces)) return {n, "\\%"};
  if (starts(text, at, "inf") && (at == 0 || text[at - 1] != '\\')) return {3, "\\infty"};
  if (starts(text, at, " sqrt")) return {5, "\\sqrt"};
  return {};
}

}  // namespace

std::string replace_words(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Replacement found = replacement_at(text, at);
    result += found.length ? found.by : text.substr(at, 1);
    at += found.length ? found.length : 1;
  }
  return result;
}

}  // namespace deltasane::answers
