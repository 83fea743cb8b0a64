#include "corpus/math/answer.h"

#include <algorithm>
#include <cctype>

namespace deltasane::corpus {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The last run of digits, with a sign, a point or a slash where they belong to it.
std::string_view last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0) {
    const char c = text[begin - 1];
    const bool inside = begin < end && is_digit(text[begin]) && (c == '.' || c == ',' || c == '/');
    if (!is_digit(c) && !(inside && begin > 1 && is_digit(text[begin - 2]))) break;
    --begin;
  }
  const bool after_number = begin > 1 && is_digit(text[begin - 2]);
  if (begin < end && begin > 0 && text[begin - 1] == '-' && !after_number) --begin;
  return text.substr(begin, end - begin);
}

// Trimmed, and without commas.
std::string normalized(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \n\t"), text.size());
  std::string found(text.substr(begin, text.find_last_not_of(" \n\t") + 1 - begin));
  std::erase(found, ',');
  return found;
}

}  // namespace

std::string stated_answer(std::string_view written) {
  constexpr std::string_view box = "\\boxed{", sentence = "answer is ";
  if (const size_t at = written.rfind(box); at != written.npos) {
    const std::string_view rest = written.substr(at + box.size());
    return normalized(rest.substr(0, rest.find('}')));
  }
  if (const size_t at = written.rfind(sentence); at != written.npos) {
    const std::string_view rest = written.substr(at + sentence.size());
    size_t stop = 0;  // a full stop ends a sentence; the point of a number does not
    while (stop < rest.size() &&
           (rest[stop] != '.' || (stop + 1 < rest.size() && is_digit(rest[stop + 1]))))
      ++stop;
    return normalized(rest.substr(0, stop));
  }
  const std::string_view number = last_number(written);
  return normalized(number.empty() ? written : number);
}

bool answer_is_correct(std::string_view written, std::string_view known) {
  return stated_answer(written) == normalized(known);
}

}  // namespace deltasane::corpus
