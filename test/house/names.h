// Names: words that say nothing, or only say when a file was written, are banned from the names of
// files and folders.
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_names(const std::vector<Source>& sources);

}  // namespace deltasane::house
