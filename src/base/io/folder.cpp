#include "base/io/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/io/folder_lock.h"
#include "base/io/temporary_file.h"

namespace deltasane {
namespace {

[[noreturn]] void refuse(const fs::path& place, const fs::filesystem_error& error) {
  fail(Fault::file, place, ": cannot create the folder: ", error.code().message());
}

// "out/" and "out" are one place.
fs::path without_slash(const fs::path& place) {
  return place.has_filename() ? place : place.parent_path();
}

fs::path beside(const fs::path& place) {
  return cat(place, AtomicFolder::unfinished, random_digits());
}

void remove_with_all(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_abandoned_beside(const fs::path& place) {
  const std::string start = cat(place.filename().string(), AtomicFolder::unfinished);
  const fs::path folder = place.parent_path();
  std::error_code problem;  // what cannot be listed stays
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, problem), end;
       !problem && entry != end; entry.increment(problem))
    if (entry->path().filename().string().starts_with(start))
      remove_if_abandoned(entry->path(), remove_with_all);
}

// Exchanges the names of two folders. False where the file system cannot.
bool exchange(const fs::path& one, const fs::path& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

void create_folder(const fs::path& folder) {
  std::error_code problem, ignored;
  fs::create_directories(folder, problem);
  if (!fs::is_directory(folder, ignored))
    fail(Fault::file, folder, ": cannot create the folder: ", problem.message());
}

AtomicFolder::AtomicFolder(const fs::path& place) : place_(without_slash(place)) {
  try {
    fs::create_directories(place_.parent_path().empty() ? "." : place_.parent_path());
    remove_abandoned_beside(place_);
    make();
  } catch (const fs::filesystem_error& error) {
    refuse(place_, error);
  }
}

void AtomicFolder::make() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = beside(place_);
    if (!fs::create_directory(path_)) continue;  // the name is taken
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor_ < 0 || lock_made(path_, descriptor_)) return;
    ::close(descriptor_);
  }
  fail(Fault::file, place_, ": expected a free name for a new folder, found 100 taken");
}

AtomicFolder::~AtomicFolder() {
  if (!path_.empty()) remove_with_all(path_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFolder::commit() {
  try {
    flush_folder(path_);
    fs::path old;  // of the folder that was there
    if (fs::exists(fs::symlink_status(place_))) {
      if (exchange(path_, place_)) {
        old = path_;
      } else {
        old = beside(place_);
        fs::rename(place_, old);
        fs::rename(path_, place_);
      }
    } else {
      fs::rename(path_, place_);
    }
    path_ = old;  // the destructor removes it
    flush_folder(place_.parent_path());
  } catch (const fs::filesystem_error& error) {
    refuse(place_, error);
  }
}

}  // namespace deltasane
