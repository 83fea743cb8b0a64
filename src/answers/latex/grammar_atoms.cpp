#include <algorithm>
#include <unordered_map>

#include "answers/latex/grammar.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = char(c + 32);
  return result;
}

// Letters of the Greek alphabet by the name that their command has.
std::string_view greek_name(std::string_view letter) {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"α", "alpha"},  {"β", "beta"},    {"γ", "gamma"},      {"Γ", "Gamma"}, {"δ", "delta"},
      {"Δ", "Delta"},  {"ε", "epsilon"}, {"ϵ", "varepsilon"}, {"ζ", "zeta"},  {"η", "eta"},
      {"θ", "theta"},  {"Θ", "Theta"},   {"ϑ", "vartheta"},   {"ι", "iota"},  {"κ", "kappa"},
      {"λ", "lambda"}, {"Λ", "Lambda"},  {"μ", "mu"},         {"ν", "nu"},    {"ξ", "xi"},
      {"Ξ", "Xi"},     {"ο", "omicron"}, {"π", "pi"},         {"Π", "Pi"},    {"ϖ", "varpi"},
      {"ρ", "rho"},    {"ϱ", "varrho"},  {"σ", "sigma"},      {"Σ", "Sigma"}, {"ς", "varsigma"},
      {"τ", "tau"},    {"υ", "upsilon"}, {"Υ", "Upsilon"},    {"φ", "phi"},   {"Φ", "Phi"},
      {"ϕ", "varphi"}, {"χ", "chi"},     {"ψ", "psi"},        {"Ψ", "Psi"},   {"ω", "omega"},
      {"Ω", "Omega"}};
  const auto found = names.find(letter);
  return found == names.end() ? letter : found->second;
}

// \vec{a b} -> vec{ab}; the different fonts of text are all the same
std::string accent_name(std::string_view accent) {
  const size_t brace = accent.find('{');
  std::string command(trimmed(accent.substr(1, brace - 1)));
  std::string content;
  for (const char c : accent.substr(brace + 1, accent.size() - brace - 2))
    if (c != ' ') content += c;
  if (command.find("text") != npos || command.find("mbox") != npos) {
    std::erase_if(content, [](char c) { return c == '(' || c == ')'; });
    return content;
  }
  if (command == "overline") command = "bar";
  if (command == "overrightarrow") command = "vec";
  if (command == "widetilde") command = "tilde";
  if (command.find("math") != npos) command = "math";
  return command + "{" + content + "}";
}

}  // namespace

std::string Grammar::symbol_name(int at) const {
  return token(at) == Token::accent ? accent_name(text(at)) : std::string(trimmed(text(at)));
}

Tree Grammar::symbol_tree(std::string name) const {
  std::string_view letter = greek_name(trimmed(name));
  if (letter.starts_with('\\')) letter.remove_prefix(1);
  return make_symbol(lower(letter), real_);
}

Tree Grammar::number_tree(std::string_view digits) const {
  const bool whole = digits.find_first_not_of("0123456789") == npos;
  return whole ? make_integer(std::string(digits)) : make_decimal(std::string(digits));
}

std::string Grammar::differential_variable(int at) const {
  std::string_view variable = text(at).substr(1);
  variable.remove_prefix(skip_spaces(variable, 0));
  if (variable.starts_with('\\')) variable.remove_prefix(1);
  return std::string(variable);
}

Grammar::Readings Grammar::plain_symbol(int at) {
  switch (token(at)) {
    case Token::letter:
    case Token::greek:
    case Token::other_symbol:
    case Token::accent:
      return {{at + 1, nullptr}};
    default:
      return {};
  }
}

std::string Grammar::subscript_text(int at, int end) const {
  const bool braces = token(at + 1) == Token::left_brace;
  const std::string inner = braces ? text(at + 2, end - 1) : text(at + 1, end);
  const std::string_view shown = trimmed(inner);
  return shown.size() > 1 ? "_{" + std::string(shown) + "}" : "_" + std::string(shown);
}

// a, b, c inside a subscript: only its text matters
Grammar::Readings Grammar::arguments(int at) {
  return chain(at, sum_, {Token::comma}, [](const Tree& left, Token, const Tree& right) {
    std::vector<Tree> parts = {left, right};
    if (left->kind == Kind::tuple && left->text == "arguments") {
      parts = left->parts;
      parts.push_back(right);
    }
    return make(Kind::tuple, std::move(parts), "arguments");
  });
}

Grammar::Readings Grammar::subscript(int at) {
  if (token(at) != Token::underscore) return {};
  if (token(at + 1) != Token::left_brace) return memoized(atom_, at + 1);
  Readings found;
  for (const Reading& inner : arguments(at + 2))
    if (token(inner.end) == Token::right_brace) add(found, inner.end + 1, inner.tree);
  return found;
}

Grammar::Readings Grammar::superscript(int at) {
  if (token(at) != Token::caret) return {};
  if (token(at + 1) != Token::left_brace) return memoized(atom_, at + 1);
  return enclosed(at + 2, sum_, Token::right_brace);
}

Grammar::Readings Grammar::symbol(int at) {
  if (plain_symbol(at).empty()) return {};
  const bool unit = token(at) == Token::letter && text(at) == "I";
  const std::string name = symbol_name(at);
  const Tree bare = symbol_tree(name);
  Readings found;
  const auto put = [&](int end, const std::string& below, const Tree& above) {
    if (!spend()) return;
    if (unit) return add(found, end, make(Kind::imaginary, {}));
    const Tree tree = below.empty() ? bare : symbol_tree(name + below);
    add(found, end, above ? make(Kind::power, {tree, above}) : tree);
  };
  const Readings below = subscript(at + 1), above = superscript(at + 1);
  for (const Reading& up : above)
    for (const Reading& down : subscript(up.end))
      put(down.end, subscript_text(up.end, down.end), up.tree);
  for (const Reading& down : below)
    for (const Reading& up : superscript(down.end))
      put(up.end, subscript_text(at + 1, down.end), up.tree);
  for (const Reading& down : below) put(down.end, subscript_text(at + 1, down.end), nullptr);
  for (const Reading& up : above) put(up.end, "", up.tree);
  put(at + 1, "", nullptr);
  return found;
}

Grammar::Readings Grammar::atom(int at) {
  Readings found;
  switch (token(at)) {
    case Token::letter:
    case Token::greek:
    case Token::other_symbol:
    case Token::accent:
      return symbol(at);
    case Token::infinity:
      return {{at + 1, make(Kind::infinity, {})}};
    case Token::partial:
      return {{at + 1, invalid_tree()}};
    case Token::number: {
      const Tree number = number_tree(text(at));
      for (const Reading& below : subscript(at + 1)) add(found, below.end, number);
      add(found, at + 1, number);
      return found;
    }
    case Token::percent_number: {
      const std::string_view shown = text(at);
      const size_t length = shown.find_first_not_of("0123456789.");
      return {{at + 1, make_percent(number_tree(shown.substr(0, length)))}};
    }
    case Token::scientific:
      return {{at + 1, make_decimal(std::string(text(at)))}};
    case Token::big_e:
      return {{at + 1, make_symbol("e", real_)}};
    case Token::differential:
      return {{at + 1, make_symbol("d" + differential_variable(at), real_)}};
    default:
      return {};
  }
}

bool looks_complex(std::string_view latex) {
  for (const std::string_view sign :
       {"\\mathbb{C}", "\\text{i}", "\\mathrm{i}", "\\det", "\\operatorname{tr}",
        "\\operatorname{rank}", "\\text{rank}", "\\arg{", "\\Re{", "\\Im{", "\\operatorname{Re}",
        "\\operatorname{Im}", "\\text{Re}", "\\text{Im}"})
    if (latex.find(sign) != npos) return true;
  const auto is_word = [&](size_t at) {
    return at < latex.size() &&
           (is_letter(latex[at]) || is_digit(latex[at]) || latex[at] == '_' || (latex[at] & 0x80));
  };
  for (size_t at = latex.find('i'); at != npos; at = latex.find('i', at + 1)) {
    const bool starts_word = at == 0 || !is_word(at - 1);
    if (starts_word && !is_word(at + 1)) return true;
    if (at > 0 && starts(latex, at - 1, "\\imath") && !is_word(at + 5)) return true;
  }
  return false;
}

}  // namespace deltasane::answers
