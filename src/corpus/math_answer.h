// What an answer to a math-chat problem says the result is, and whether that is right.
#pragma once

#include <string>
#include <string_view>

namespace deltasane::corpus {

// What stands in the last \boxed{...}; or else between the last "answer is " and a full stop; or
// else the last number ("-3", "1,234", "2.5", "3/4"); or else all of it. Without white space
// around, and without commas.
std::string stated_answer(std::string_view written);

bool answer_is_right(std::string_view written, std::string_view known);

}  // namespace deltasane::corpus
