// One process at a time: an exclusive lock on a file, which is made where it is not there. The
// system gives it back when the process ends, however it does. Good between processes that see the
// same file system.
#pragma once

#include <functional>

#include "base/io/file.h"

namespace deltasane {

class FileLock {
 public:
  // Blocks until no other process has it; calls `waits` once before that.
  explicit FileLock(const fs::path& path, const std::function<void()>& waits = {});
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace deltasane
