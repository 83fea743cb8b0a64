// Temporary files beside the file that they will replace.
//
// A name is NAME.tmp- and 16 random digits, created by this process alone (O_EXCL, O_NOFOLLOW). As
// long as its writer lives the file is locked (flock), whatever process ids or containers it and
// others have. So the file of a writer that was killed can be told from that of a living one, and
// is removed by the next. A program can remove its own when a signal ends it.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file.h"

namespace deltasane {

struct TemporaryFile {
  fs::path path;
  int descriptor = -1;  // open for writing, and locked
};

// `mode`: permission bits; the process's umask applies.
TemporaryFile create_temporary(const fs::path& beside, unsigned mode);

// 16 digits that nobody else has drawn.
std::string random_digits();

// Locks a file or folder that was just made. False where somebody has removed it before, who took
// it for abandoned. Where a file system has no locks, nobody removes anything.
bool lock_made(const fs::path& path, int descriptor);
// Calls `remove` where nobody holds the lock, which is held meanwhile.
void remove_if_abandoned(const fs::path& path, void (*remove)(const fs::path& path));

// Files that this process writes, for a signal's handler; not where the table of them is full.
void remember_temporary(const fs::path& path);
void forget_temporary(const fs::path& path);

// From here on SIGINT, SIGTERM and SIGHUP end the process without leaving such files; one that is
// ignored stays so. For programs, not for libraries.
void remove_temporaries_on_signals();

// Whether a file name ends like one of a temporary file, of this version or of one before.
bool is_temporary_name(std::string_view name);

// Removes temporary files in `folder` that no living process writes: all, or those beside the file
// `of`. What cannot be removed stays.
void remove_abandoned(const fs::path& folder, std::string_view of = {});

}  // namespace deltasane
