// Text from a file, made fit for one line of a message: in quotes, bytes that are not printable
// ASCII as \xHH, cut after 100 characters.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

std::string printable(std::string_view text);

}  // namespace deltasane
