// Operators written without braces.
#include <charconv>

#include "answers/latex/normalize.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

size_t optional_space(std::string_view text, size_t at) { return at + space_length(text, at); }

// What a rule found: text[start, end) is to be replaced by `by`.
struct Edit {
  size_t end = npos;
  std::string by;
};

std::string part(std::string_view text, size_t from, size_t to) {
  return std::string(text.substr(from, to - from));
}

// word ( ... )  ->  opening ... }
Edit parenthesis_to_braces(std::string_view text, size_t at, std::string_view word,
                           std::string_view opening) {
  if (!starts(text, at, word)) return {};
  const size_t open = optional_space(text, at + word.size());
  if (!starts(text, open, "(")) return {};
  const size_t close = text.find(')', open + 1);
  if (close == npos) return {};
  return {close + 1, std::string(opening) + part(text, open + 1, close) + "}"};
}

// \frac 1 23  ->  \frac{1}{23}
Edit two_numbers(std::string_view text, size_t at, std::string_view command) {
  if (!starts(text, at, command)) return {};
  const size_t first = optional_space(text, at + command.size());
  if (first >= text.size() || !is_digit(text[first])) return {};
  const size_t second = optional_space(text, first + 1);
  size_t end = second;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == second) return {};
  return {end, std::string(command) + "{" + text[first] + "}{" + part(text, second, end) + "}"};
}

// \frac{a}2  ->  \frac{a}{2}; the first brace may be any later one that a digit follows
Edit number_below(std::string_view text, size_t at) {
  if (!starts(text, at, "\\frac")) return {};
  const size_t open = optional_space(text, at + 5);
  if (!starts(text, open, "{")) return {};
  for (size_t close = text.find('}', open + 1); close != npos; close = text.find('}', close + 1)) {
    const size_t digit = optional_space(text, close + 1);
    if (digit < text.size() && is_digit(text[digit]))
      return {digit + 1, "\\frac{" + part(text, open + 1, close) + "}{" + text[digit] + "}"};
  }
  return {};
}

// \frac1{b}  ->  \frac{1}{b}
Edit number_above(std::string_view text, size_t at) {
  if (!starts(text, at, "\\frac")) return {};
  const size_t digit = optional_space(text, at + 5);
  if (digit >= text.size() || !is_digit(text[digit])) return {};
  const size_t open = optional_space(text, digit + 1);
  if (!starts(text, open, "{")) return {};
  const size_t close = text.find('}', open + 1);
  if (close == npos) return {};
  return {close + 1,
          std::string("\\frac{") + text[digit] + "}{" + part(text, open + 1, close) + "}"};
}

Edit root_of_digit(std::string_view text, size_t at) {
  if (!starts(text, at, "\\sqrt")) return {};
  const size_t digit = optional_space(text, at + 5);
  if (digit >= text.size() || !is_digit(text[digit])) return {};
  return {digit + 1, std::string("\\sqrt{") + text[digit] + "}"};
}

template <class Rule>
void apply_everywhere(std::string& text, char first, const Rule& rule) {
  std::string result;
  size_t at = text.find(first);
  if (at == npos) return;
  result.append(text, 0, at);
  while (at < text.size()) {
    Edit edit;
    if (text[at] == first) edit = rule(std::string_view(text), at);
    if (edit.end == npos) {
      result += text[at++];
    } else {
      result += edit.by;
      at = edit.end;
    }
  }
  text = std::move(result);
}

// Every \sqrt gets braces round the next character unless it has an argument already.
std::string brace_roots(std::string_view text) {
  std::string result;
  size_t at = text.find("\\sqrt");
  if (at == npos) return std::string(text);
  result += text.substr(0, at);
  while (at != npos) {
    const size_t next = text.find("\\sqrt", at + 5);
    std::string_view piece = text.substr(at + 5, next == npos ? npos : next - at - 5);
    piece.remove_prefix(skip_spaces(piece, 0));
    result += "\\sqrt";
    if (!piece.empty() && piece[0] != '{' && piece[0] != '[') {
      const size_t length = character_length(piece, 0);
      result += "{" + std::string(piece.substr(0, length)) + "}";
      piece.remove_prefix(length);
    }
    result += piece;
    at = next;
  }
  return result;
}

// The same for the two arguments of \frac.
std::string brace_fractions(std::string_view text) {
  std::string result(text.substr(0, text.find("\\frac")));
  for (size_t at = result.size(); at < text.size();) {
    const size_t next = text.find("\\frac", at + 5);
    std::string_view piece = text.substr(at + 5, next == npos ? npos : next - at - 5);
    piece.remove_prefix(skip_spaces(piece, 0));
    result += "\\frac";
    if (!piece.starts_with('{')) {
      const size_t first = character_length(piece, 0), second = character_length(piece, first);
      if (second == 0) return std::string(text);
      result += "{" + std::string(piece.substr(0, first)) + "}";
      piece.remove_prefix(first);
      if (piece[0] != '{') {
        result += "{" + std::string(piece.substr(0, second)) + "}";
        piece.remove_prefix(second);
      }
    }
    result += piece;
    at = next == npos ? text.size() : next;
  }
  return result;
}

bool canonical_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.find_first_not_of("0123456789") != npos) return false;
  return text == "0" || digits[0] != '0';
}

}  // namespace

std::string repair_operators(std::string text) {
  using View = std::string_view;
  apply_everywhere(text, '^',
                   [](View t, size_t at) { return parenthesis_to_braces(t, at, "^", "^{"); });
  apply_everywhere(
      text, 's', [](View t, size_t at) { return parenthesis_to_braces(t, at, "sqrt", "\\sqrt{"); });
  apply_everywhere(text, '\\', [](View t, size_t at) { return two_numbers(t, at, "\\frac"); });
  apply_everywhere(text, '\\', [](View t, size_t at) { return two_numbers(t, at, "\\log_"); });
  apply_everywhere(text, '\\', number_below);
  apply_everywhere(text, '\\', number_above);
  apply_everywhere(text, '\\', root_of_digit);
  replace_all(text, " sqrt", "\\sqrt");
  text = brace_fractions(brace_roots(text));
  const size_t slash = text.find('/');
  if (slash == npos || slash != text.rfind('/')) return text;
  const View whole = text, above = whole.substr(0, slash), below = whole.substr(slash + 1);
  if (!canonical_integer(above) || !canonical_integer(below)) return text;
  return "\\frac{" + std::string(above) + "}{" + std::string(below) + "}";
}

}  // namespace deltasane::answers
