#pragma once

#include <string>

namespace deltasane::cli {

// Version, compiler and what was built in: the first thing a bug report needs.
std::string version_text();

}  // namespace deltasane::cli
