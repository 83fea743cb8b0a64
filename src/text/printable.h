// Bytes as they may be shown in a message: in quotes, printable ASCII only, cut when long.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

std::string printable(std::string_view bytes);

}  // namespace deltasane
