#include "answers/extract/environment.h"

namespace deltasane::answers {

namespace {

// End of -?\d+([.,]\d+)? at `at`, or npos.
size_t simple_number(std::string_view text, size_t at) {
  if (starts(text, at, "-")) ++at;
  const size_t first = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == first) return npos;
  if (at + 1 < text.size() && (text[at] == '.' || text[at] == ',') && is_digit(text[at + 1]))
    for (++at; at < text.size() && is_digit(text[at]);) ++at;
  return at;
}

size_t bare_fraction(std::string_view text, size_t at) {
  if (starts(text, at, "-")) ++at;
  if (!starts(text, at, "\\frac")) return npos;
  at += 5;
  for (int i = 0; i < 2; ++i) {
    if (!starts(text, at, "{")) return npos;
    at = simple_number(text, at + 1);
    if (at == npos || !starts(text, at, "}")) return npos;
    ++at;
  }
  return at;
}

size_t percent_length(std::string_view text, size_t at) {
  for (const std::string_view sign : {"%", "\\%", "percent", "Percent", "pct", "Pct"})
    if (starts(text, at, sign)) return sign.size();
  return 0;
}

}  // namespace

EnvironmentScanner::EnvironmentScanner(std::string_view text)
    : text_(text),
      dollars_(text, "$$"),
      bracket_(text, "\\]"),
      parenthesis_(text, "\\)"),
      newline_(text, "\n") {}

size_t EnvironmentScanner::skip_spaces(size_t position) {
  if (position < spaces_from_ || position >= spaces_to_) {
    spaces_from_ = position;
    spaces_to_ = answers::skip_spaces(text_, position);
  }
  return std::max(position, spaces_to_);
}

bool EnvironmentScanner::holds_box(size_t from, size_t to) const {
  const std::string_view content = text_.substr(from, to - from);
  const size_t box = content.find("\\boxed{");
  if (box == npos) return false;
  const size_t brace = content.rfind('}');
  return brace != npos && brace > box + 7;
}

std::optional<std::pair<size_t, size_t>> EnvironmentScanner::delimited(size_t at, Content content,
                                                                       size_t& end) {
  const char previous = at > 0 ? text_[at - 1] : ' ';
  const auto fits = [&](size_t from, size_t to, size_t closing) {
    end = to + closing;
    return content == Content::any || holds_box(from, to);
  };
  if (text_[at] == '$') {
    if (starts(text_, at, "$$") && previous != '\\') {
      const size_t close = dollars_(at + 2);
      if (close != npos && close > at + 2 && text_[close - 1] != '\\' && fits(at + 2, close, 2))
        return std::pair(at + 2, close);
    }
    if (previous == '\\' || is_digit(previous)) return {};
    size_t close = text_.find_first_of("$\n", at + 1);
    while (close != npos && text_[close] == '$' && text_[close - 1] == '\\')
      close = text_.find_first_of("$\n", close + 1);
    if (close == npos || text_[close] == '\n' || close == at + 1) return {};
    if (fits(at + 1, close, 1)) return std::pair(at + 1, close);
    return {};
  }
  if (text_[at] == '\\' && previous != '\\') {
    if (starts(text_, at, "\\[")) {
      const size_t close = bracket_(at + 2);
      if (close != npos && close > at + 2 && text_[close - 1] != '\\' && fits(at + 2, close, 2))
        return std::pair(at + 2, close);
    } else if (starts(text_, at, "\\(")) {
      const size_t close = parenthesis_(at + 2);
      if (close != npos && close > at + 2 && text_[close - 1] != '\\' && newline_(at + 2) > close &&
          fits(at + 2, close, 2))
        return std::pair(at + 2, close);
    }
  }
  if (const size_t space = space_length(text_, at); space && starts(text_, at + space, "[")) {
    const size_t from = at + space + 1, close = text_.find_first_of("[]\n", from);
    if (close != npos && text_[close] == ']' && close > from)
      if (const size_t after = space_length(text_, close + 1))
        if (fits(from, close, 1 + after)) return std::pair(from, close);
  }
  return {};
}

std::optional<EnvironmentScanner::Found> EnvironmentScanner::at(size_t position, Content content) {
  if (position >= text_.size()) return {};
  size_t end = 0;
  auto range = delimited(position, content, end);
  if (!range && content == Content::any && (text_[position] == '\\' || text_[position] == '-')) {
    const size_t close = bare_fraction(text_, position);
    if (close != npos) range.emplace(position, end = close);
  }
  if (!range) return {};
  Found found;
  found.span.content = text_.substr(range->first, range->second - range->first);
  found.end = skip_spaces(end);
  if (const size_t length = percent_length(text_, found.end)) {
    found.span.percent = true;
    found.end += length;
  }
  return found;
}

std::optional<EnvironmentScanner::Found> EnvironmentScanner::after_spaces(size_t position,
                                                                          Content content) {
  const size_t past = skip_spaces(position);
  if (auto found = at(past, content)) return found;
  const size_t last = past > position ? space_before(text_, past) : npos;
  return last != npos && last >= position ? at(last, content) : std::nullopt;
}

std::optional<EnvironmentScanner::Enumeration> EnvironmentScanner::enumeration_at(size_t position,
                                                                                  Content content) {
  const auto first = at(position, content);
  if (!first) return {};
  Enumeration all{{first->span}, first->end};
  for (int i = 0; i < 5; ++i) {
    size_t here = skip_spaces(all.end);
    const bool comma = starts(text_, here, ",");
    if (starts(text_, here + comma, "and"))
      here += comma + 3;
    else if (starts(text_, here + comma, "or"))
      here += comma + 2;
    else if (comma)
      ++here;
    else
      break;
    const auto next = after_spaces(here, content);
    if (!next) break;
    all.spans.push_back(next->span);
    all.end = next->end;
  }
  if (content == Content::boxed) all.end = skip_spaces(all.end);
  return all;
}

std::optional<EnvironmentScanner::Enumeration> EnvironmentScanner::enumeration_after_spaces(
    size_t position, Content content) {
  const size_t past = skip_spaces(position);
  if (auto found = enumeration_at(past, content)) return found;
  const size_t last = past > position ? space_before(text_, past) : npos;
  return last != npos && last >= position ? enumeration_at(last, content) : std::nullopt;
}

}  // namespace deltasane::answers
