#include "serve/state/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/io/folder_lock.h"
#include "base/io/seal.h"
#include "base/json/json_text.h"

namespace deltasane::serve {

Journal::Journal(const fs::path& path, const std::function<void(const Json&)>& take) : path_(path) {
  if (fs::exists(path)) {
    const std::string text = read_file(path);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      if (end == text.npos) break;  // cut off
      const std::string where = cat(path.string(), ": line ", lines_ + 1);
      take(parse_json<Json>(unsealed(std::string_view(text).substr(at, end - at), where), where));
      at = end + 1;
      size_ = at;
      ++lines_;
    }
  }
  open();
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, off_t(size_)) != 0)
    fail(Fault::file, path_, ": cannot write: ", std::strerror(errno));
  flush_folder(path_.parent_path());
}

void Journal::add(const Json& object) {
  const std::string line = sealed(dump(object)) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t some = ::pwrite(descriptor_, line.data() + sent, line.size() - sent,
                                  off_t(size_ + sent));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) {
      const int why = errno;
      const int ignored = ::ftruncate(descriptor_, off_t(size_));  // else the next start does it
      static_cast<void>(ignored);
      fail(Fault::file, path_, ": cannot write: ", std::strerror(why));
    }
    sent += size_t(some);
  }
  if (::fdatasync(descriptor_) != 0)
    fail(Fault::file, path_, ": cannot write: ", std::strerror(errno));
  size_ += line.size();
  ++lines_;
}

void Journal::rewrite(const std::vector<Json>& objects) {
  std::string text;
  for (const Json& object : objects) text += sealed(dump(object)) + "\n";
  replace_file(path_, text);
  ::close(descriptor_);
  size_ = text.size();
  lines_ = objects.size();
  open();
}

}  // namespace deltasane::serve
