#include "text/bpe/pretokenizer.h"

#include <initializer_list>

#include "base/cat.h"
#include "base/error.h"
#include "text/unicode/character_class.h"

namespace deltasane {
namespace {

using unicode::Character;
using unicode::CharacterClass;

constexpr std::string_view contractions = "'s|'t|'re|'ve|'m|'ll|'d";
constexpr std::string_view spaces = R"(\s+(?!\S)|\s+)";
constexpr std::string_view newlines_or_spaces = R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Positions in a text, by bytes. Each function is a part of an expression; it takes where to begin
// and returns where the match ends, the beginning itself if nothing matches.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  bool done(size_t at) const { return at >= text_.size(); }
  Character at(size_t position) const { return unicode::first_character(text_.substr(position)); }
  static bool newline(const Character& c) {
    return c.code_point == '\r' || c.code_point == '\n';
  }

  template <class Accepts>
  size_t run(size_t from, const Accepts& accepts, int most = -1) const {
    for (; !done(from) && most != 0; --most) {
      const Character c = at(from);
      if (!accepts(c)) break;
      from += c.length;
    }
    return from;
  }

  // 's|'t|'re|'ve|'m|'ll|'d, in any case or in lower case alone. In any case, the long s (U+017F)
  // is an s too.
  size_t contraction(size_t from, bool any_case = true) const {
    if (done(from) || text_[from] != '\'') return from;
    const std::string_view rest = text_.substr(from + 1);
    if (any_case && rest.starts_with("\xC5\xBF")) return from + 3;
    const auto letter = [&](size_t i) {
      if (i >= rest.size()) return '\0';
      const char c = rest[i];
      return any_case && c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    };
    for (const std::string_view known : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      size_t same = 0;
      while (same < known.size() && letter(same) == known[same]) ++same;
      if (same == known.size()) return from + 1 + same;
    }
    return from;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+, the first only if asked for. `from` is at a space.
  size_t white_space(size_t from, bool up_to_newline) const {
    size_t end = from, last = from, after_newline = from;
    while (!done(end)) {
      const Character c = at(end);
      if (c.kind != CharacterClass::space) break;
      last = end;
      end += c.length;
      if (newline(c)) after_newline = end;
    }
    if (up_to_newline && after_newline > from) return after_newline;
    return done(end) || last == from ? end : last;
  }

 private:
  std::string_view text_;
};

bool number(const Character& c) { return c.kind == CharacterClass::number; }

//  ?X+[\r\n]*, where X is neither space, letter (as `letter` says) nor number.
template <class Letter>
size_t punctuation(const Scan& scan, const Character& first, const Letter& letter, bool newlines) {
  const auto accepts = [&](const Character& c) {
    return c.kind != CharacterClass::space && !letter(c) && !number(c);
  };
  const size_t begin = first.code_point == ' ' ? 1 : 0;
  const size_t end = scan.run(begin, accepts);
  if (end == begin) return 0;
  return newlines ? scan.run(end, Scan::newline) : end;
}

// One character that is no newline, letter or number may stand in front of a word.
size_t word_prefix(const Character& first) {
  return Scan::newline(first) || first.is_letter() || number(first) ? 0 : first.length;
}

size_t first_word(std::string_view text, bool marks, int digits) {
  const Scan scan(text);
  const Character first = scan.at(0);
  const auto letter = [&](const Character& c) {
    return c.is_letter() || (marks && c.kind == CharacterClass::mark);
  };
  if (const size_t end = scan.contraction(0)) return end;
  const size_t prefix = word_prefix(first);
  if (const size_t end = scan.run(prefix, letter); end > prefix) return end;
  if (const size_t end = scan.run(0, letter)) return end;  // a mark alone
  if (number(first)) return scan.run(0, number, digits);
  if (const size_t end = punctuation(scan, first, letter, true)) return end;
  return scan.white_space(0, true);
}

size_t first_gpt2_piece(std::string_view text) {
  const Scan scan(text);
  const Character first = scan.at(0);
  const auto letter = [](const Character& c) { return c.is_letter(); };
  if (const size_t end = scan.contraction(0, false)) return end;
  const size_t prefix = first.code_point == ' ' ? 1 : 0;
  if (const size_t end = scan.run(prefix, letter); end > prefix) return end;
  if (const size_t end = scan.run(prefix, number); end > prefix) return end;
  if (const size_t end = punctuation(scan, first, letter, false)) return end;
  return scan.white_space(0, false);
}

// A word is capitals, then small letters; what has no case is both.
bool capital(const Character& c) {
  return !c.han && (c.kind == CharacterClass::upper || c.kind == CharacterClass::letter ||
                    c.kind == CharacterClass::mark);
}
bool small(const Character& c) {
  return !c.han && (c.kind == CharacterClass::lower || c.kind == CharacterClass::letter ||
                    c.kind == CharacterClass::mark);
}

// capital* small+ from here on: the capitals are given back up to one that is small too. Nothing
// matches: `from` itself.
size_t capitals_and_small(const Scan& scan, size_t from) {
  size_t end = from, after_both = from;
  while (!scan.done(end)) {
    const Character c = scan.at(end);
    if (!capital(c)) break;
    end += c.length;
    if (small(c)) after_both = end;
  }
  const size_t small_end = scan.run(end, small);
  return small_end > end ? small_end : after_both;
}

size_t first_kimi_piece(std::string_view text) {
  const Scan scan(text);
  const Character first = scan.at(0);
  if (const size_t end = scan.run(0, [](const Character& c) { return c.han; })) return end;
  const size_t prefix = word_prefix(first);
  for (const size_t begin : {prefix, size_t{0}})
    if (const size_t end = capitals_and_small(scan, begin); end > begin)
      return scan.contraction(end);
  for (const size_t begin : {prefix, size_t{0}})
    if (const size_t end = scan.run(begin, capital); end > begin)
      return scan.contraction(scan.run(end, small));
  if (number(first)) return scan.run(0, number, 3);
  const auto letter = [](const Character& c) { return c.is_letter(); };
  if (const size_t end = punctuation(scan, first, letter, true)) return end;
  return scan.white_space(0, true);
}

std::string words_expression(bool marks, int digits) {
  const std::string_view in_class = marks ? R"(\p{L}\p{M})" : R"(\p{L})";
  return cat("(?i:", contractions, R"()|[^\r\n\p{L}\p{N}]?)", marks ? "[" : "", in_class,
             marks ? "]" : "", R"(+|\p{N})", digits == 1 ? "" : cat("{1,", digits, "}"),
             R"(| ?[^\s)", in_class, R"(\p{N}]+)", newlines_or_spaces);
}

std::string kimi_expression() {
  const std::string_view upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])";
  const std::string_view lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])";
  const std::string_view prefix = R"(|[^\r\n\p{L}\p{N}]?)";
  const std::string suffix = cat("(?i:", contractions, ")?");
  return cat(R"([\p{Han}]+)", prefix, upper, "*", lower, "+", suffix, prefix, upper, "+", lower,
             "*", suffix, R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)", newlines_or_spaces);
}

}  // namespace

size_t Pretokenizer::first_piece(std::string_view text) const {
  switch (kind) {
    case Kind::none:
      return text.size();
    case Kind::words:
      return first_word(text, marks, digits);
    case Kind::gpt2:
      return first_gpt2_piece(text);
    case Kind::kimi:
      return first_kimi_piece(text);
  }
  require(false, "first_piece knows every kind");
  return 0;
}

std::string Pretokenizer::expression() const {
  switch (kind) {
    case Kind::none:
      return {};
    case Kind::words:
      return words_expression(marks, digits);
    case Kind::gpt2:
      return cat(contractions, R"(| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)", spaces);
    case Kind::kimi:
      return kimi_expression();
  }
  require(false, "expression knows every kind");
  return {};
}

std::optional<Pretokenizer> pretokenizer_of_expression(std::string_view expression) {
  using Kind = Pretokenizer::Kind;
  for (const Pretokenizer& known : {Pretokenizer{Kind::gpt2}, Pretokenizer{Kind::kimi}})
    if (expression == known.expression()) return known;
  for (const bool marks : {false, true})
    for (int digits = 1; digits <= 9; ++digits) {
      const Pretokenizer words{Kind::words, marks, digits};
      if (expression == words.expression()) return words;
    }
  return std::nullopt;
}

}  // namespace deltasane
