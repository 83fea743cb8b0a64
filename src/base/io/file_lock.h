// One process at a time: an exclusive lock on a file, which is made where it is not there. The
// system gives it back when the process ends, however it does. Good between processes that see the
// same file system.
#pragma once

#include <functional>
#include <memory>

#include "base/io/file.h"

namespace deltasane {

class FileLock {
 public:
  // Blocks until no other process has it; calls `waits` once before that.
  explicit FileLock(const fs::path& path, const std::function<void()>& waits = {});
  // Null where another process, or another part of this one, has it.
  static std::unique_ptr<FileLock> attempt(const fs::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  struct Opened {
    int descriptor;
  };
  explicit FileLock(Opened file) : descriptor_(file.descriptor) {}

  int descriptor_;
};

}  // namespace deltasane
