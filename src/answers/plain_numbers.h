// Integers, decimal numbers and percentages thereof: compared digit by digit, without GMP.
#pragma once

#include <optional>

#include "answers/tree.h"

namespace deltasane::answers {

// Nothing if one of them is not such a number. `rounding` decimals count when one is a decimal.
std::optional<bool> compare_plain_numbers(const Node& a, const Node& b, int rounding);

// How many digits a decimal number is taken to be exact to: those written, at least 15.
int decimal_precision(const Node& decimal);

}  // namespace deltasane::answers
