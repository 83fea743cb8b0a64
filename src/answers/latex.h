// LaTeX to an expression tree.
#pragma once

#include <string_view>

#include "answers/tree.h"

namespace deltasane::answers {

// Null if the text is not an expression of the grammar, makes no sense, or costs too much to read.
// A chain of equations that cannot be read whole is read from its last equal sign on.
Tree parse_latex(std::string_view latex);

// "3/4 + 2" as a programmer would write it. Null if it is not such an expression.
Tree parse_plain(std::string_view text);

}  // namespace deltasane::answers
