#include "answers/answers.h"
#include "answers/extract/match.h"
#include "answers/latex/latex.h"
#include "answers/latex/normalize.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

constexpr size_t longest_latex = 8000;  // more is kept as text and not parsed
constexpr int max_attempts = 200;       // spans of one text that may fail to parse

struct Reading {
  Tree value;
  std::string choice, text;
};

Reading read_span(const LatexSpan& span, const CheckOptions& options) {
  Reading reading;
  std::string_view content = span.content;
  std::string boxed;
  if (span.bare_box && content.size() > longest_latex) {
    boxed = boxed_content(content, Boxes::last);
    content = boxed;
  }
  if (content.size() > longest_latex) {
    reading.text = trimmed(boxed_content(content, Boxes::all));
    return reading;
  }
  reading.text = normalize_latex(content, span.bare_box ? Boxes::last : Boxes::all,
                                 options.repair_operators ? Repair::operators : Repair::nothing);
  reading.value = parse_latex(reading.text);
  if (reading.value && span.percent) reading.value = make_percent(reading.value);
  return reading;
}

Reading read_latex(const Match& match, const CheckOptions& options) {
  std::vector<Reading> readings;
  bool all_read = true;
  for (const LatexSpan& span : match.spans) {
    readings.push_back(read_span(span, options));
    all_read = all_read && readings.back().value;
  }
  if (readings.size() == 1 || !all_read) return readings[0];
  Reading joined;
  std::vector<Tree> elements;
  for (const Reading& reading : readings) {
    if (reading.value->kind == Kind::finite_set)
      elements.insert(elements.end(), reading.value->parts.begin(), reading.value->parts.end());
    else
      elements.push_back(reading.value);
    joined.text += (joined.text.empty() ? "" : " and ") + reading.text;
  }
  joined.value = make_set(std::move(elements));
  return joined;
}

Reading read_number(const Match& match) {
  Reading reading;
  std::string integer;
  for (const char c : match.integer)
    if (c != ',' && c != ' ') integer += c;
  const bool negative = integer.starts_with('-');
  if (negative) integer.erase(0, 1);
  integer.erase(0, std::min(integer.find_first_not_of('0'), integer.size()));
  if (integer.empty()) integer = "0";
  std::string fraction = match.fraction;
  if (!fraction.empty()) fraction[0] = '.';
  reading.text = (negative ? "-" : "") + integer + fraction;
  reading.value = fraction.empty() ? make_integer(integer, negative)
                                   : make_decimal(integer + fraction, negative);
  if (reading.value->kind == Kind::invalid) reading.value = nullptr;
  if (reading.value && match.percent) reading.value = make_percent(reading.value);
  return reading;
}

Reading read(const Match& match, const CheckOptions& options) {
  Reading reading;
  switch (match.what) {
    case Match::What::latex:
      return read_latex(match, options);
    case Match::What::number:
      return read_number(match);
    case Match::What::expression:
      reading.text = match.text;
      reading.value = parse_plain(match.text);
      return reading;
    case Match::What::choice:
      reading.text = reading.choice = match.text;
      if (options.lowercase_choices)
        for (char& c : reading.choice)
          if (c >= 'A' && c <= 'Z') c = char(c + 32);
      return reading;
  }
  return reading;
}

}  // namespace

std::string wrapped(std::string_view bare_gold) {
  if (bare_gold.find_first_of("$\n") == npos) return "$" + std::string(bare_gold) + "$";
  return "\\boxed{" + std::string(bare_gold) + "}";
}

Answer extract(std::string_view text, const CheckOptions& options) {
  Answer answer;
  int attempts = 0;
  bool done = false;
  Matcher matcher(text, options);
  for (const int priority : matcher.priorities()) {
    for (const Match& match : matcher.matches(priority)) {
      if (++attempts > max_attempts) break;
      Reading reading = read(match, options);
      if (answer.text.empty()) answer.text = std::move(reading.text);
      answer.value = std::move(reading.value);
      answer.choice = std::move(reading.choice);
      done = answer.value || !answer.choice.empty() || options.mode == ExtractionMode::first_match;
      if (done) break;
    }
    if (done) break;
  }
  if (options.fallback == Fallback::none) answer.text.clear();
  return answer;
}

}  // namespace deltasane::answers
