// Levenshtein distance: the number of substituted, inserted or deleted letters that turn one word
// into another. For messages that suggest the known word closest to an unknown one.
#pragma once

#include <cstddef>
#include <string_view>

namespace deltasane {

size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace deltasane
