// LaTeX to an expression tree.
#pragma once

#include <string_view>

#include "answers/tree.h"

namespace deltasane::answers {

// Null if the text is not in the grammar, is meaningless, or exceeds the budget. A chain of
// equations that cannot be parsed whole is parsed from its last equal sign on.
Tree parse_latex(std::string_view latex);

// "3/4 + 2" in plain text. Null if it is not such an expression.
Tree parse_plain(std::string_view text);

}  // namespace deltasane::answers
