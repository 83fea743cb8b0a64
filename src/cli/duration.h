// A span of time as people read it: "40s", "3m 05s", "2h 07m".
#pragma once

#include <string>

namespace deltasane::cli {

std::string duration_text(double seconds);

}  // namespace deltasane::cli
