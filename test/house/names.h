// Names: words without meaning, or with history only, are banned from the names of files and
// folders.
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_names(const std::vector<Source>& sources);

}  // namespace deltasane::house
