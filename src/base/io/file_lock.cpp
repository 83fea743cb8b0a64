#include "base/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace deltasane {
namespace {

int opened(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(Fault::file, path, ": cannot open: ", std::strerror(errno));
  return descriptor;
}

}  // namespace

std::unique_ptr<FileLock> FileLock::attempt(const fs::path& path) {
  const int descriptor = opened(path);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return std::unique_ptr<FileLock>(new FileLock(Opened{descriptor}));
  const int error = errno;
  ::close(descriptor);
  if (error == EWOULDBLOCK) return nullptr;
  fail(Fault::file, path, ": cannot lock: ", std::strerror(error));
}

FileLock::FileLock(const fs::path& path, const std::function<void()>& waits)
    : descriptor_(opened(path)) {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK && waits) waits();
  while (::flock(descriptor_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const int error = errno;
      ::close(descriptor_);
      fail(Fault::file, path, ": cannot lock: ", std::strerror(error));
    }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace deltasane
