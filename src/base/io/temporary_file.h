// Temporary files beside the file that they will replace.
//
// A name is NAME.tmp- and 16 random digits, created by this process alone (O_EXCL, O_NOFOLLOW). As
// long as its writer lives the file is locked (flock), whatever process ids or containers it and
// others have. So the file of a writer that was killed can be told from that of a living one, and
// is removed by the next.
#pragma once

#include <string_view>

#include "base/io/file.h"

namespace deltasane {

struct TemporaryFile {
  fs::path path;
  int descriptor = -1;  // open for writing, and locked
};

// `mode`: permission bits; the process's umask applies.
TemporaryFile create_temporary(const fs::path& beside, unsigned mode);

// Whether a file name ends like one of a temporary file, of this version or of one before.
bool is_temporary_name(std::string_view name);

// Removes temporary files in `folder` that no living process writes: all, or those beside the file
// `of`. What cannot be removed stays.
void remove_abandoned(const fs::path& folder, std::string_view of = {});

}  // namespace deltasane
