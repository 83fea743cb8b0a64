// Units at the end of an answer. The list is that of the reference, collected from word problems. A
// point in an entry matches any character.
#include <array>

#include "answers/latex/normalize.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

constexpr std::array unit_words = std::to_array<std::string_view>({
    "integerpoint",
    "feet",
    "sue",
    "digit",
    "pound",
    "meal",
    "edge",
    "student",
    "children ticket",
    "multiple",
    "east",
    "degree",
    "mph",
    "kmph",
    "ft",
    "m square",
    " m east",
    "sq m",
    "deg",
    "mile",
    "q .",
    "monkey",
    "prime",
    "ratio",
    "profit of rs",
    "rd",
    "o",
    "gm",
    "p . m",
    "lb",
    "tile",
    "per",
    "dm",
    "lt",
    "gain",
    "ab",
    "way",
    "west",
    "a .",
    "b .",
    "c .",
    "d .",
    "e .",
    "f .",
    "g .",
    "h .",
    "t",
    "h",
    "no change",
    "men",
    "soldier",
    "pie",
    "bc",
    "excess",
    "st",
    "inches",
    "noon",
    "cent",
    "by",
    "gal",
    "kmh",
    "c",
    "acre",
    "rise",
    "a . m",
    "th",
    "π r 2",
    "sq",
    "mark",
    "l",
    "toy",
    "coin",
    "sq . m",
    "gallon",
    "° f",
    "profit",
    "minw",
    "yr",
    "women",
    "am",
    "pm",
    "hr",
    "cu cm",
    "square",
    "are",
    "rupee",
    "rounds",
    "cubic",
    "cc",
    "mtr",
    "s",
    "ohm",
    "number",
    "day",
    "hour",
    "minute",
    "min",
    "second",
    "man",
    "woman",
    "sec",
    "cube",
    "mt",
    "sq inch",
    "mp",
    "∏ cm ³",
    "hectare",
    "more",
    "unit",
    "cu . m",
    "cm 2",
    "rs .",
    "rs",
    "kg",
    "g",
    "month",
    "km",
    "m",
    "cm",
    "mm",
    "apple",
    "liter",
    "loss",
    "yard",
    "pure",
    "year",
    "increase",
    "decrease",
    "d",
    "less",
    "Surface",
    "litre",
    "pi sq m",
    "s .",
    "metre",
    "meter",
    "inch",
});

// Whether a unit, perhaps in the plural, and then only white space fill the text from `at` on.
bool unit_to_the_end(std::string_view text, size_t at) {
  for (const std::string_view unit : unit_words) {
    size_t here = at, i = 0;
    for (; i < unit.size() && here < text.size(); ++i) {
      if (unit[i] == '.') {
        here += character_length(text, here);
      } else if (text[here] == unit[i]) {
        ++here;
      } else {
        break;
      }
    }
    if (i < unit.size()) continue;
    if (skip_spaces(text, here) == text.size()) return true;
    if (starts(text, here, "s") && skip_spaces(text, here + 1) == text.size()) return true;
    if (starts(text, here, "es") && skip_spaces(text, here + 2) == text.size()) return true;
  }
  return false;
}

std::string_view without_unit_word(std::string_view text) {
  constexpr size_t longest = 64;
  for (size_t at = text.size() > longest ? text.size() - longest : 0; at < text.size(); ++at) {
    const size_t space = space_length(text, at);
    if (!is_digit(text[at]) && text[at] != '}' && space == 0) continue;
    const size_t kept = at + (space ? space : 1);
    const size_t word = skip_spaces(text, kept);
    // The white space may also belong to the unit.
    for (size_t start = word; start != npos && start >= kept; start = space_before(text, start))
      if (unit_to_the_end(text, start)) return text.substr(0, kept);
  }
  return text;
}

// Where a \text{...} begins that reaches to the end, perhaps with a power after it.
size_t trailing_text(std::string_view text) {
  size_t end = text.size();
  if (end >= 3 && is_digit(text[end - 1]) && text[end - 2] == '^' && text[end - 3] == '}') end -= 2;
  if (end >= 5 && text[end - 1] == '}' && is_digit(text[end - 2]) &&
      text.substr(end - 5, 3) == "}{^")
    end -= 4;
  if (end == 0 || text[end - 1] != '}') return npos;
  const size_t start = std::min(text.find("\\text{"), text.find("\\mbox{"));
  return start != npos && start + 6 < end ? start : npos;
}

}  // namespace

std::string strip_units(std::string text) {
  if (const size_t start = trailing_text(text); start != npos) {
    const std::string_view rest = trimmed(std::string_view(text).substr(0, start));
    if (!rest.empty()) text = std::string(rest);
  } else if (const std::string_view rest = trimmed(text); !rest.empty() && rest != text) {
    text = std::string(rest);
  }
  for (int pass = 0; pass < 2; ++pass)
    if (const std::string_view rest = without_unit_word(text); !rest.empty())
      text = std::string(rest);
  return text;
}

}  // namespace deltasane::answers
