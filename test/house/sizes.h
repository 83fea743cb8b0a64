// Sizes: a source has at most 500 lines, and a folder of src/ at most 25 files of its own.
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_lines(const std::vector<Source>& sources);

// `paths` are files relative to the root. Tests and lists count, subfolders do not.
Findings check_folders(const std::vector<std::string>& paths);

}  // namespace deltasane::house
