#include "base/io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/io/folder.h"
#include "base/timing.h"

namespace deltasane {
namespace {

int open_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, double patience) {
  create_folder(folder);
  descriptor_ = open_folder(folder);
  if (descriptor_ < 0) fail(Fault::file, folder, ": cannot open: ", std::strerror(errno));
  const double until = seconds_now() + patience;
  int reason = 0;
  do {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    reason = errno;
    if (patience > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (reason == EWOULDBLOCK && seconds_now() < until);
  ::close(descriptor_);
  if (reason == EWOULDBLOCK)
    fail(Fault::file, folder,
         ": another process writes to this folder: wait for it to end, or give another folder");
  fail(Fault::file, folder, ": cannot lock the folder: ", std::strerror(reason),
       "; give one on a file system that has locks");
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void flush_folder(const fs::path& folder) {
  const int descriptor = open_folder(folder.empty() ? "." : folder);
  const bool flushed = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed) fail(Fault::file, folder, ": cannot flush to disk: ", std::strerror(reason));
}

}  // namespace deltasane
