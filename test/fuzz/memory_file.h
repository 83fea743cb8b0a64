// Bytes as a file, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io/file.h"
#include "fuzz/targets.h"

namespace deltasane::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "there is room for a file in memory");
    require(::write(descriptor_, bytes.data(), bytes.size()) == ssize_t(bytes.size()),
            "a file in memory can be written");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  fs::path path() const { return cat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace deltasane::fuzz
