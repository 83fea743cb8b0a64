// Untrusted bytes, escaped for one line of a message: in quotes, what is not printable ASCII as
// \xHH, truncated after 100 characters.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

std::string printable(std::string_view bytes);

}  // namespace deltasane
