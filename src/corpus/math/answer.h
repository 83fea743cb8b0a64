// The result that a written answer to a math-chat problem states, and whether it is correct.
#pragma once

#include <string>
#include <string_view>

namespace deltasane::corpus {

// The content of the last \boxed{...}; or else the text between the last "answer is " and a full
// stop; or else the last number ("-3", "1,234", "2.5", "3/4"); or else all of it. Trimmed, and
// without commas.
std::string stated_answer(std::string_view written);

bool answer_is_correct(std::string_view written, std::string_view known);

}  // namespace deltasane::corpus
