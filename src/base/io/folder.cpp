#include "base/io/folder.h"

#include <unistd.h>

#include "base/error.h"
#include "base/io/folder_lock.h"

namespace deltasane {
namespace {

[[noreturn]] void refuse(const fs::path& place, const fs::filesystem_error& error) {
  fail(Fault::file, place, ": expected to write this folder, found: ", error.code().message());
}

// "out/" and "out" are one place.
fs::path without_slash(const fs::path& place) {
  return place.has_filename() ? place : place.parent_path();
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& place)
    : place_(without_slash(place)), path_(cat(place_, unfinished, ::getpid())) {
  try {
    fs::create_directories(path_);
  } catch (const fs::filesystem_error& error) {
    refuse(place_, error);
  }
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void AtomicFolder::commit() {
  try {
    flush_folder(path_);
    fs::remove_all(place_);
    fs::rename(path_, place_);
    path_.clear();
    flush_folder(place_.parent_path());
  } catch (const fs::filesystem_error& error) {
    refuse(place_, error);
  }
}

}  // namespace deltasane
