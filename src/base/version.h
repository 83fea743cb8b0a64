// The version of the sources: 0.2.0 at a tag, 0.2.0+14.g4f3e2d1 after it (cmake/version.cmake).
#pragma once

#include <string_view>

namespace deltasane {

std::string_view build_version();

}  // namespace deltasane
