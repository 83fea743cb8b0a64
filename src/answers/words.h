// Symbols, and products of symbols that may spell a word: choice letters, "even", "AC". They are
// compared by name.
#pragma once

#include <optional>

#include "answers/tree.h"

namespace deltasane::answers {

// Nothing if one of them is neither a symbol, a product of symbols nor a number, or both are
// numbers.
std::optional<bool> compare_words(const Node& gold, const Node& prediction);

}  // namespace deltasane::answers
