// A number that changes with a file's content (xxh3), to see that a run is resumed with the files it
// began with. Not for enemies: whoever can choose the bytes can make two files with one digest.
#pragma once

#include <cstdint>

#include "base/io/file.h"

namespace deltasane {

// Of all bytes up to this size; of longer files the length and as many bytes, in 1024 evenly spaced
// blocks with the first and the last among them: 64 MiB are read in 10 to 50 ms.
inline constexpr uint64_t digested_bytes = uint64_t{64} << 20;

uint64_t file_digest(const fs::path& path);

// Whether a run may continue with other files than it began with.
enum class ChangedFiles { refuse, allow };

}  // namespace deltasane
