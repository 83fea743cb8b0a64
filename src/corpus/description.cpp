#include "corpus/description.h"

#include <algorithm>
#include <charconv>

#include "base/words/nearest_word.h"
#include "base/error.h"
#include "base/printable.h"

namespace deltasane::corpus {
namespace {

// Parses "..." from its opening quote; leaves `at` behind the closing one.
std::string read_quoted(std::string_view kind, std::string_view rest, size_t& at) {
  std::string text;
  const size_t open = at;
  for (++at; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] != '\\') {
      text += rest[at];
      continue;
    }
    constexpr std::string_view marks = "nt\"\\", meanings = "\n\t\"\\";
    const size_t mark = ++at < rest.size() ? marks.find(rest[at]) : marks.npos;
    if (mark == marks.npos)
      fail(Fault::usage, kind, ": expected \\n, \\t, \\\" or \\\\ inside quotes, found ",
           printable(rest.substr(at - 1, 2)));
    text += meanings[mark];
  }
  if (at == rest.size())
    fail(Fault::usage, kind, ": expected a closing quote, found none for ",
         printable(rest.substr(open)));
  ++at;
  return text;
}

// Up to the next comma, or in quotes and then up to it.
std::string read_value(std::string_view kind, std::string_view rest, size_t& at) {
  std::string value;
  if (at < rest.size() && rest[at] == '"') {
    value = read_quoted(kind, rest, at);
    if (at < rest.size() && rest[at] != ',')
      fail(Fault::usage, kind, ": expected a comma after a closing quote, found ",
           printable(rest.substr(at)));
  } else {
    const size_t comma = std::min(rest.find(',', at), rest.size());
    value = rest.substr(at, comma - at);
    at = comma;
  }
  return value;
}

}  // namespace

KindAndRest split_kind(std::string_view description) {
  const size_t colon = description.find(':');
  if (colon == description.npos) return {description, {}};
  return {description.substr(0, colon), description.substr(colon + 1)};
}

void fail_unknown(std::string_view what, std::string_view found,
                  std::span<const std::string_view> known) {
  std::string list;
  for (const std::string_view name : known) list += cat(list.empty() ? "" : ", ", name);
  if (known.empty()) fail(Fault::usage, what, ": expected nothing, found ", printable(found));
  const auto closest = nearest_word(found, known);
  fail(Fault::usage, what, ": expected one of ", list, "; found ", printable(found),
       closest ? cat(". The closest is '", *closest, "'") : "");
}

std::string quoted_if_needed(std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\n\t\\()") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n' || c == '\t')
      quoted += c == '\n' ? "\\n" : "\\t";
    else
      quoted += c;
  }
  return quoted + '"';
}

Options::Options(std::string_view kind, std::string_view rest, Subject subject) : kind_(kind) {
  size_t at = 0;
  if (subject == Subject::required) {
    subject_ = read_value(kind, rest, at);
    if (subject_.empty()) fail(Fault::usage, kind, ": expected ", kind, ":PATH, found no path");
    if (at < rest.size()) ++at;
  }
  while (at < rest.size()) {
    const size_t equals = rest.find('=', at), comma = rest.find(',', at);
    if (equals == rest.npos || equals > comma)
      fail(Fault::usage, kind, ": expected name=value, found ",
           printable(rest.substr(at, comma == rest.npos ? comma : comma - at)));
    Given given{std::string(rest.substr(at, equals - at)), {}};
    at = equals + 1;
    given.value = read_value(kind, rest, at);
    for (const Given& other : given_)
      if (other.name == given.name)
        fail(Fault::usage, kind, ": expected ", given.name, " once, found it twice");
    given_.push_back(std::move(given));
    if (at < rest.size() && ++at == rest.size())
      fail(Fault::usage, kind, ": expected name=value after the last comma, found nothing");
  }
}

const std::string* Options::take(std::string_view name) {
  known_.emplace_back(name);
  for (Given& given : given_)
    if (given.name == name) {
      given.used = true;
      return &given.value;
    }
  return nullptr;
}

std::string Options::text(std::string_view name, std::string_view fallback) {
  const std::string* const value = take(name);
  return value ? *value : std::string(fallback);
}

uint64_t Options::number(std::string_view name, uint64_t fallback, uint64_t min, uint64_t max) {
  const std::string* const value = take(name);
  if (!value) return fallback;
  uint64_t number = 0;
  const char* const end = value->data() + value->size();
  const auto read = std::from_chars(value->data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < min || number > max)
    fail(Fault::usage, kind_, ": ", name, ": expected a whole number from ", min, " to ", max,
         ", found ", printable(*value));
  return number;
}

size_t Options::choice(std::string_view name, size_t fallback,
                       std::span<const std::string_view> choices) {
  const std::string* const value = take(name);
  if (!value) return fallback;
  const auto found = std::ranges::find(choices, *value);
  if (found == choices.end()) fail_unknown(cat(kind_, ": ", name), *value, choices);
  return size_t(found - choices.begin());
}

void Options::done() const {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  for (const Given& given : given_)
    if (!given.used) fail_unknown(cat(kind_, ": option"), given.name, known);
}

}  // namespace deltasane::corpus
