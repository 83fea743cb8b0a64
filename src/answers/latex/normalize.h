// Normalization of LaTeX before parsing: the rewriting rules of the reference, in its order. Its
// quirks are kept: an answer that the reference fails to parse must fail here.
#pragma once

#include <string>
#include <string_view>

#include "answers/extract/boxed.h"

namespace deltasane::answers {

enum class Repair { operators, nothing };

std::string normalize_latex(std::string_view latex, Boxes boxes, Repair repair);

// The steps.
std::string strip_commands(std::string text);      // \left, \displaystyle, quotes, dollars ...
std::string replace_words(std::string_view text);  // "and", "percent", \dfrac, \mathrm ...
std::string strip_units(std::string text);         // a trailing \text{...} or unit word
std::string repair_operators(std::string text);    // \frac12, \sqrt2, x^(2), 3/4

}  // namespace deltasane::answers
