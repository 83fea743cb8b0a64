#include "answers/extract/prose.h"

#include <array>
#include <cstdint>

namespace deltasane::answers {

namespace {

size_t operator_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  switch (text[at]) {
    case '+':
    case '-':
    case '*':
    case '/':
    case '^':
    case '(':
    case ')':
      return 1;
    case '\xC3':
      return starts(text, at, "×") || starts(text, at, "÷") ? 2 : 0;
    default:
      return 0;
  }
}

size_t symbol_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  if (is_digit(text[at]) || text[at] == '.') return 1;
  if (const size_t length = operator_length(text, at)) return length;
  return space_length(text, at);
}

size_t currency_length(std::string_view text, size_t at) {
  for (const std::string_view sign : {"$", "£", "¥", "฿"})
    if (starts(text, at, sign)) return sign.size();
  // U+20A1 .. U+20BF
  if (at + 2 < text.size() && starts(text, at, "\xE2\x82") && uint8_t(text[at + 2]) >= 0xA1 &&
      uint8_t(text[at + 2]) <= 0xBF)
    return 3;
  return 0;
}

size_t percent_end(std::string_view text, size_t at) {
  const size_t word = skip_spaces(text, at);
  for (const std::string_view sign : {"%", "percent", "Percent", "pct", "Pct"})
    if (starts(text, word, sign)) return word + sign.size();
  return npos;
}

bool ends_text(std::string_view text, size_t at) {
  return at == text.size() || (at + 1 == text.size() && text[at] == '\n');
}

// End of the character that must follow an expression, or npos.
size_t after_suffix(std::string_view text, size_t at) {
  if (at < text.size() && std::string_view(".,:)$").find(text[at]) != npos) return at + 1;
  if (const size_t length = space_length(text, at)) return at + length;
  return ends_text(text, at) ? at : npos;
}

// Calls body with the position after each way to read what comes before a number.
template <class Body>
std::optional<Match> with_prefixes(std::string_view text, size_t at, const Body& body) {
  std::array<size_t, 3> starts_at{};
  int count = 0;
  if (at == 0) starts_at[size_t(count++)] = 0;
  if (const size_t length = space_length(text, at)) starts_at[size_t(count++)] = at + length;
  if (starts(text, at, "=")) starts_at[size_t(count++)] = at + 1;
  for (int i = 0; i < count; ++i) {
    const size_t start = starts_at[size_t(i)];
    if (starts(text, start, "**"))
      if (auto match = body(start + 2)) return match;
    if (auto match = body(start)) return match;
  }
  return {};
}

}  // namespace

size_t ProseScanner::digits_end(size_t position) {
  if (position < digits_from_ || position >= digits_to_) {
    digits_from_ = digits_to_ = position;
    while (digits_to_ < text_.size() && is_digit(text_[digits_to_])) ++digits_to_;
  }
  return std::max(position, digits_to_);
}

size_t ProseScanner::symbols_end(size_t position) {
  if (position < symbols_from_ || position >= symbols_to_) {
    symbols_from_ = symbols_to_ = position;
    for (size_t length; (length = symbol_length(text_, symbols_to_)) > 0;) symbols_to_ += length;
  }
  return std::max(position, symbols_to_);
}

size_t ProseScanner::next_operator(size_t position) {
  if (position < operator_from_ || position > operator_to_) {
    operator_from_ = operator_to_ = position;
    while (operator_length(text_, operator_to_) == 0) {
      const size_t length = symbol_length(text_, operator_to_);
      if (length == 0) break;
      operator_to_ += length;
    }
  }
  return operator_to_;
}

std::optional<Match> ProseScanner::expression_from(size_t begin, const Follow& follow) {
  size_t digit = begin;
  if (starts(text_, digit, "-")) ++digit;
  if (starts(text_, digit, "(")) ++digit;
  if (starts(text_, digit, "-")) ++digit;
  if (digit >= text_.size() || !is_digit(text_[digit])) return {};
  const size_t last = symbols_end(digit);
  const size_t op = next_operator(digit + 1);  // at least one symbol must come after it
  if (op >= last) return {};
  const size_t least = op + operator_length(text_, op);
  for (size_t end = last; end > least; --end) {
    if (end < text_.size() && (text_[end] & 0xC0) == 0x80) continue;
    for (const size_t stars : {size_t(2), size_t(0)}) {
      if (stars && !starts(text_, end, "**")) continue;
      const size_t after = after_suffix(text_, end + stars);
      if (after == npos || !follow(after)) continue;
      Match match;
      match.what = Match::What::expression;
      match.end = after;
      match.text = text_.substr(begin, end - begin);
      return match;
    }
  }
  return {};
}

bool ProseScanner::accept(Match& match, size_t begin, size_t integer_end, size_t end,
                          const Follow& follow) {
  const size_t with_percent = percent_end(text_, end);
  const bool percent = with_percent != npos && follow(with_percent);
  if (!percent && !follow(end)) return false;
  match.what = Match::What::number;
  match.percent = percent;
  match.end = percent ? with_percent : end;
  match.integer = text_.substr(begin, integer_end - begin);
  match.fraction = text_.substr(integer_end, end - integer_end);
  return true;
}

std::optional<Match> ProseScanner::number_from(size_t begin, const Follow& follow) {
  Match match;
  const size_t first = begin + starts(text_, begin, "-");
  const size_t run = digits_end(first);
  const auto is_run = [&](size_t at) { return at < text_.size() && is_digit(text_[at]); };
  // 1,234,567.8 or 1 234 567.8
  if (run > first && text_[first] != '0' && run - first <= 3) {
    std::vector<size_t> ends;
    for (size_t at = run; at < text_.size() && (text_[at] == ',' || text_[at] == ' ') &&
                          is_run(at + 1) && is_run(at + 2) && is_run(at + 3);
         at += 4)
      ends.push_back(at + 4);
    for (size_t i = ends.size(); i-- > 0;) {
      if (starts(text_, ends[i], ".") && is_run(ends[i] + 1))
        for (size_t end = digits_end(ends[i] + 1); end > ends[i] + 1; --end)
          if (accept(match, begin, ends[i], end, follow)) return match;
      if (accept(match, begin, ends[i], ends[i], follow)) return match;
    }
  }
  // 12.5 or 12,5
  if (run > first && run < text_.size() && (text_[run] == '.' || text_[run] == ',') &&
      is_run(run + 1))
    for (size_t end = digits_end(run + 1); end > run + 1; --end)
      if (accept(match, begin, run, end, follow)) return match;
  // .5
  if (starts(text_, begin, ".") && is_run(begin + 1))
    for (size_t end = digits_end(begin + 1); end > begin + 1; --end)
      if (accept(match, begin, begin, end, follow)) return match;
  for (size_t end = run; end > first; --end)
    if (accept(match, begin, end, end, follow)) return match;
  return {};
}

std::optional<Match> ProseScanner::expression_at(size_t position, const Follow& follow) {
  auto match =
      with_prefixes(text_, position, [&](size_t begin) { return expression_from(begin, follow); });
  if (match) match->start = position;
  return match;
}

std::optional<Match> ProseScanner::number_at(size_t position, const Follow& follow) {
  auto match = with_prefixes(text_, position, [&](size_t begin) {
    if (const size_t currency = currency_length(text_, begin))
      if (auto found = number_from(begin + currency, follow)) return found;
    return number_from(begin, follow);
  });
  if (match) match->start = position;
  return match;
}

std::optional<Match> ProseScanner::either_at(size_t position, const Follow& follow) {
  if (!may_start(position)) return {};
  if (auto match = expression_at(position, follow)) return match;
  return number_at(position, follow);
}

}  // namespace deltasane::answers
