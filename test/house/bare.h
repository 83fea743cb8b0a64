// Bare: a build from a compiler and one folder of headers must not use anything else that is
// installed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "house/finding.h"

namespace deltasane::house {

// `dependencies` is what `ninja -t deps` prints. Every header must be of the project, of the folder
// of headers, of the compiler, or of the C library.
Findings check_headers(std::string_view dependencies, const std::filesystem::path& source,
                       const std::filesystem::path& headers);

// `dynamic` is what `readelf -d` prints. Every shared library must be the compiler's or libc's.
Findings check_shared_libraries(std::string_view dynamic);

}  // namespace deltasane::house
