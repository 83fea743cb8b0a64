// How many letters to change, add or take away to make one word of another: for messages that name
// the known word nearest to an unknown one.
#pragma once

#include <cstddef>
#include <string_view>

namespace deltasane {

size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace deltasane
