#include "eval/run/journal.h"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/io/seal.h"

namespace deltasane::eval {

Journal::Journal(const fs::path& path) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    fail(Fault::file, path.string(), ": expected to write it, found: ", std::strerror(errno));
  const std::string text = read_file(path);
  const size_t whole = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size() && ftruncate(descriptor_, off_t(whole)) != 0) {
    close(descriptor_);
    fail(Fault::file, path.string(), ": cannot take a half line away: ", std::strerror(errno));
  }
}

Journal::~Journal() { close(descriptor_); }

void Journal::append(std::string_view object) {
  const std::string text = cat(sealed(object), "\n");
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

namespace {

std::vector<std::string> lines_of(const fs::path& path) {
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

}  // namespace

std::vector<std::string> read_journal(const fs::path& path, Seals seals) {
  std::vector<std::string> lines = lines_of(path);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string where = cat(path, ":", i + 1);
    if (seals == Seals::required)
      lines[i] = unsealed(lines[i], where);
    else if (has_seal(lines[i]))
      fail(Fault::file, where, ": expected a line without checksum, as run.json has none, found ",
           "one; run.json is damaged or was edited");
  }
  return lines;
}

void seal_journal(const fs::path& path) {
  if (!fs::exists(path)) return;
  std::string text;
  for (const std::string& line : lines_of(path)) {
    if (!line.ends_with('}')) fail(Fault::file, path, ": expected JSON objects, found other text");
    text += cat(has_seal(line) ? line : sealed(line), "\n");
  }
  replace_file(path, text);
}

}  // namespace deltasane::eval
