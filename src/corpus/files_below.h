// The files of a corpus.
#pragma once

#include <vector>

#include "base/io/file.h"

namespace deltasane::corpus {

// The file itself, or all files of a folder and its folders in the order of their names, without
// those whose names begin with a dot. Broken and circular links are skipped; a folder that cannot be
// read is an error.
std::vector<fs::path> files_below(const fs::path& path);

}  // namespace deltasane::corpus
