// A folder that a reader or a crash sees whole or not at all: written beside its place under another
// name, NAME.part-PID, and renamed by commit(). Without commit() it is removed.
#pragma once

#include "base/io/file.h"

namespace deltasane {

class AtomicFolder {
 public:
  static constexpr std::string_view unfinished = ".part-";  // in the names of such folders

  explicit AtomicFolder(const fs::path& place);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const fs::path& path() const { return path_; }  // where to write
  void commit();                                  // replaces what is at the place

 private:
  fs::path place_, path_;
};

}  // namespace deltasane
