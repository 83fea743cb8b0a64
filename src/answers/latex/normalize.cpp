#include "answers/latex/normalize.h"

#include <array>

#include "answers/scan.h"

namespace deltasane::answers {

namespace {

constexpr std::array<std::string_view, 16> left_delimiters = {
    "\\{",      "{",        "\\|",    "|",       "[",       "(",        "\\rbracl", "\\lgroup",
    "\\lbrace", "\\lbrack", "\\vert", "\\lvert", "\\lceil", "\\lfloor", "\\langle", "\\llcorner"};
constexpr std::array<std::string_view, 16> right_delimiters = {
    "\\}",      "}",      "\\|",     "|",       "]",        ")",        "\\rbrack",   "\\rgroup",
    "\\rbrace", "\\vert", "\\rvert", "\\rceil", "\\rfloor", "\\rangle", "\\lrcorner", "\\urcorner"};

// Length of the sizing command at `at` if a delimiter follows it directly, else 0.
size_t sizing_command(std::string_view text, size_t at) {
  for (const std::string_view command : {"\\left", "\\mleft", "\\right", "\\mright"}) {
    if (!starts(text, at, command)) continue;
    const bool left = command.ends_with("left");
    for (const std::string_view delimiter : left ? left_delimiters : right_delimiters)
      if (starts(text, at + command.size(), delimiter)) return command.size();
    if (left && starts(text, at + command.size(), "\\ulcorner")) return command.size();
  }
  return 0;
}

std::string strip_sizing(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      if (const size_t length = sizing_command(text, at)) {
        at += length;
        continue;
      }
    }
    result += text[at++];
  }
  return result;
}

bool in_permutation(char c) {
  return is_letter(c) || is_digit(c) || std::string_view("+-*/\\ ").find(c) != npos;
}

size_t run_of(std::string_view text, size_t at) {
  while (at < text.size() && in_permutation(text[at])) ++at;
  return at;
}

// (a)_{b}, the falling factorial, becomes a!/(a-b)!.
std::string expand_permutations(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') {
      const size_t end = run_of(text, at + 1);
      if (end > at + 1 && starts(text, end, ")_{")) {
        const size_t last = run_of(text, end + 3);
        if (last > end + 3 && starts(text, last, "}")) {
          const auto base = std::string(text.substr(at + 1, end - at - 1));
          const auto count = std::string(text.substr(end + 3, last - end - 3));
          result += "\\frac{(" + base + ")!}{((" + base + ")-(" + count + "))!}";
          at = last;
          continue;
        }
      }
    }
    result += text[at];
  }
  return result;
}

// Length of something at `at` that is dropped, else 0.
size_t dropped(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '$') return 1;
  if (c == '"' || c == '\'') return at == 0 || text[at - 1] != '\\';
  if (c != '\\') return 0;
  for (const std::string_view command : {"\\mathrm{th}", "\\$", "\\displaystyle"})
    if (starts(text, at, command)) return command.size();
  if (starts(text, at, "\\!")) return skip_spaces(text, at + 2) - at;
  if (starts(text, at, "\\text")) {
    const size_t open = skip_spaces(text, at + 5);
    if (!starts(text, open, "{")) return 0;
    const size_t close = skip_spaces(text, open + 1);
    if (starts(text, close, "}")) return close + 1 - at;
  }
  return 0;
}

}  // namespace

std::string strip_commands(std::string text) {
  replace_all(text, "\\mathrm{T}", "T");
  replace_all(text, "\\mathrm{d}", "d");
  replace_all(text, "{\\rm d}", "d");
  replace_all(text, "\\left[\\begin{matrix}", "\\begin{bmatrix}");
  replace_all(text, "\\end{matrix}\\right]", "\\end{bmatrix}");
  text = expand_permutations(strip_sizing(text));
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (const size_t length = dropped(text, at))
      at += length;
    else
      result += text[at++];
  }
  return result;
}

std::string normalize_latex(std::string_view latex, Boxes boxes, Repair repair) {
  std::string text = strip_commands(boxed_content(latex, boxes));
  text = replace_words(text);
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  if (text.find("matrix") == npos) {
    std::string single;
    for (size_t at = 0; at < text.size(); ++at) {
      if (starts(text, at, "\\\\") && at + 2 < text.size() && is_letter(text[at + 2])) ++at;
      single += text[at];
    }
    text = single;
  }
  text = strip_units(std::move(text));
  if (text.starts_with('.')) text.insert(0, "0");
  if (text == "0.5") text = "\\frac{1}{2}";
  if (repair == Repair::operators) text = repair_operators(std::move(text));
  return std::string(trimmed(text));
}

}  // namespace deltasane::answers
