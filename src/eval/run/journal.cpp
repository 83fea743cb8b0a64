#include "eval/run/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace deltasane::eval {

Journal::Journal(const fs::path& path) : path_(path) {
  std::error_code problem;  // what is wrong shows when the file is opened
  fs::create_directories(path.parent_path(), problem);
  descriptor_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    fail(Fault::file, path.string(), ": expected to write it, found: ", std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    fail(Fault::file, path.string(),
         ": expected to be the only one who writes it, found another process; wait for it, or give "
         "another output folder");
  }
  const std::string text = read_file(path);
  const size_t whole = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size() && ftruncate(descriptor_, off_t(whole)) != 0) {
    close(descriptor_);
    fail(Fault::file, path.string(), ": cannot take a half line away: ", std::strerror(errno));
  }
}

Journal::~Journal() { close(descriptor_); }

void Journal::append(std::string_view line) {
  const std::string text = cat(line, "\n");
  for (size_t written = 0; written < text.size();) {
    const ssize_t some = write(descriptor_, text.data() + written, text.size() - written);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) fail(Fault::file, path_.string(), ": cannot write: ", std::strerror(errno));
    written += size_t(some);
  }
}

void Journal::flush() {
  if (fsync(descriptor_) != 0)
    fail(Fault::file, path_.string(), ": cannot write to the disk: ", std::strerror(errno));
}

std::vector<std::string> read_journal(const fs::path& path) {
  std::vector<std::string> lines;
  const std::string text = read_file(path);
  for (size_t from = 0; from < text.size();) {
    const size_t end = text.find('\n', from);
    if (end == text.npos) break;
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

}  // namespace deltasane::eval
