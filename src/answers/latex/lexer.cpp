#include <algorithm>
#include <array>

#include "answers/latex/token.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

constexpr size_t longest_word = 17;

constexpr std::array accents = std::to_array<std::string_view>({
    "\\acute",      "\\bar",          "\\overline", "\\breve",          "\\check",
    "\\widecheck",  "\\dot",          "\\ddot",     "\\grave",          "\\hat",
    "\\tilde",      "\\widetilde",    "\\vec",      "\\overrightarrow", "\\bm",
    "\\boldsymbol", "\\text",         "\\textit",   "\\textbf",         "\\textnormal",
    "\\mathbb",     "\\mathbin",      "\\mathbf",   "\\mathcal",        "\\mathclap",
    "\\mathclose",  "\\mathellipsis", "\\mathfrak", "\\mathinner",      "\\mathit",
    "\\mathnormal", "\\mathop",       "\\mathopen", "\\mathord",        "\\mathpunct",
    "\\mathrel",    "\\mathring",     "\\mathrlap", "\\mathrm",         "\\mathscr",
    "\\mathsf",     "\\mathsterling", "\\mathtt",   "\\mbox",
});

bool grammar_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

size_t digits_end(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

Lexeme number_at(std::string_view text, size_t at) {
  size_t end = digits_end(text, at);
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]))
    end = digits_end(text, end + 1);
  if (end == at) return {};
  Lexeme lexeme{Token::number, text.substr(at, end - at)};
  if (end < text.size() && text[end] == 'E') {
    const size_t sign = end + 1 < text.size() && (text[end + 1] == '-' || text[end + 1] == '+');
    const size_t exponent = digits_end(text, end + 1 + sign);
    if (exponent > end + 1 + sign) lexeme = {Token::scientific, text.substr(at, exponent - at)};
  }
  const size_t sign = end + (end < text.size() && grammar_space(text[end]));
  const size_t length = starts(text, sign, "%") ? 1 : starts(text, sign, "\\%") ? 2 : 0;
  if (length && sign + length - at > lexeme.text.size())
    lexeme = {Token::percent_number, text.substr(at, sign + length - at)};
  return lexeme;
}

// d x, dx, d\theta
size_t differential_length(std::string_view text, size_t at) {
  if (text[at] != 'd') return 0;
  size_t end = at + 1;
  while (end < text.size() && grammar_space(text[end])) ++end;
  if (end >= text.size()) return 0;
  if (is_letter(text[end])) return end + 1 - at;
  if (text[end] != '\\') return 0;
  const size_t name = ++end;
  while (end < text.size() && is_letter(text[end])) ++end;
  return end > name ? end - at : 0;
}

size_t accent_length(std::string_view text, size_t at) {
  for (const std::string_view accent : accents) {
    if (!starts(text, at, accent)) continue;
    size_t brace = at + accent.size();
    if (brace < text.size() && grammar_space(text[brace])) ++brace;
    if (!starts(text, brace, "{")) continue;
    const size_t close = text.find('}', brace + 1);
    if (close != npos) return close + 1 - at;
  }
  return 0;
}

size_t array_length(std::string_view text, size_t at) {
  constexpr std::string_view begin = "\\begin{array}{";
  if (!starts(text, at, begin)) return 0;
  size_t end = at + begin.size();
  while (end < text.size() && (text[end] == 'c' || text[end] == 'l' || text[end] == 'r')) ++end;
  return starts(text, end, "}") ? end + 1 - at : 0;
}

Lexeme longest_at(std::string_view text, size_t at) {
  const char c = text[at];
  Lexeme best;
  for (size_t length = std::min(longest_word, text.size() - at); length > 0; --length) {
    const Token token = fixed_word(text.substr(at, length));
    if (token == Token::end) continue;
    best = {token, text.substr(at, length)};
    break;
  }
  const auto offer = [&](Token token, size_t length) {
    if (length > best.text.size()) best = {token, text.substr(at, length)};
  };
  if (is_digit(c) || c == '.') {
    const Lexeme number = number_at(text, at);
    offer(number.token, number.text.size());
  }
  if (is_letter(c)) {
    offer(Token::letter, 1);
    offer(Token::differential, differential_length(text, at));
  }
  if (c == '\\') {
    offer(Token::accent, accent_length(text, at));
    offer(Token::array_begin, array_length(text, at));
  }
  if ((best.token == Token::greek || best.token == Token::other_symbol) &&
      starts(text, at + best.text.size(), " "))
    best.text = text.substr(at, best.text.size() + 1);
  return best;
}

}  // namespace

std::optional<std::vector<Lexeme>> tokenize(std::string_view text, size_t most) {
  std::vector<Lexeme> lexemes;
  for (size_t at = 0; at < text.size();) {
    if (grammar_space(text[at])) {
      ++at;
      continue;
    }
    const Lexeme lexeme = longest_at(text, at);
    if (lexeme.text.empty() || lexemes.size() >= most) return {};
    at += lexeme.text.size();
    if (lexeme.token != Token::skip) lexemes.push_back(lexeme);
  }
  lexemes.push_back({Token::end, {}});
  return lexemes;
}

}  // namespace deltasane::answers
