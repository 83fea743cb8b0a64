// Holds a folder for this process, as long as that lives: two runs never write to one folder. A
// process that is killed leaves no lock behind.
#pragma once

#include "base/io/file.h"

namespace deltasane {

class FolderLock {
 public:
  // Makes the folder. Fails where another process holds it, and still does after `patience` seconds.
  explicit FolderLock(const fs::path& folder, double patience = 0);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Makes what is in the folder durable: names that were added, renamed or removed.
void flush_folder(const fs::path& folder);

}  // namespace deltasane
