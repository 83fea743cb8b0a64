# cmake -DNUMBER=X.Y.Z -DWRITTEN=FILE -P write_version.cmake: writes the source that holds the version
# text, and leaves it alone where it says the same already.
include(${CMAKE_CURRENT_LIST_DIR}/version.cmake)
deltasane_find_version(${NUMBER})
file(CONFIGURE OUTPUT ${WRITTEN} @ONLY CONTENT [[
#include "base/version.h"

namespace deltasane {

std::string_view build_version() { return "@DELTASANE_VERSION_TEXT@"; }

}  // namespace deltasane
]])
