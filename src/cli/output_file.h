// Files that are written at the end of long work.
#pragma once

#include "base/io/file.h"

namespace deltasane::cli {

// Before the work: fails where the file could not be made. An empty path is no file.
inline void expect_writable(const fs::path& path) {
  if (!path.empty()) const AtomicFile made(path);
}

}  // namespace deltasane::cli
