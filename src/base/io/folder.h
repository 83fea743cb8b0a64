// Folders that are made, alone or with what is in them.
//
// AtomicFolder is one that a reader or a crash sees whole or not at all: written beside its place under another
// name, NAME.part- and 16 random digits, and renamed by commit(). Without commit() it is removed.
//
// Where there is a folder at the place, both change names in one step (RENAME_EXCHANGE of Linux), so
// that at every moment there is one of them. A file system that cannot do that (NFS, some FUSE) has a
// moment without: the old folder is then beside its place under such a name.
//
// The folder is locked (flock) as long as its writer lives; the next writer of the same place
// removes what a killed one has left.
#pragma once

#include "base/io/file.h"

namespace deltasane {

void create_folder(const fs::path& folder);  // with those above it; one that is there stays

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
  void make();

  fs::path place_, path_;
  int descriptor_ = -1;
};

}  // namespace deltasane
