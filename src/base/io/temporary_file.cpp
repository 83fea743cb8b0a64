#include "base/io/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/hexadecimal.h"

namespace deltasane {
namespace {

constexpr std::string_view mark = ".tmp-";

// Read by a signal handler: nothing is allocated or freed. A path that was forgotten meanwhile
// leads to no file.
struct Slot {
  std::atomic<bool> taken{false}, whole{false};
  std::array<char, 4096> path{};
};
std::array<Slot, 16> remembered;

extern "C" void end_without_temporaries(int number) {
  for (const Slot& slot : remembered)
    if (slot.whole) ::unlink(slot.path.data());
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// Whether the name still leads to the file of this descriptor.
bool leads_to(const fs::path& path, int descriptor) {
  struct stat named, open;
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace

std::string random_digits() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != ssize_t(sizeof number))
    number = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()) ^
             uint64_t(::getpid()) << 40;  // a name that is taken is tried again
  return hexadecimal(number);
}

bool lock_made(const fs::path& path, int descriptor) {
  return ::flock(descriptor, LOCK_EX) != 0 || leads_to(path, descriptor);
}

void remove_if_abandoned(const fs::path& path, void (*remove)(const fs::path& path)) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && leads_to(path, descriptor)) remove(path);
  ::close(descriptor);
}

TemporaryFile create_temporary(const fs::path& beside, unsigned mode) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    TemporaryFile made{beside.string() + cat(mark, random_digits()), -1};
    made.descriptor = ::open(made.path.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode_t(mode));
    if (made.descriptor < 0 && errno == EEXIST) continue;
    if (made.descriptor < 0) fail(Fault::file, beside, ": cannot create: ", std::strerror(errno));
    if (lock_made(made.path, made.descriptor)) return made;
    ::close(made.descriptor);
  }
  fail(Fault::file, beside, ": expected a free name for a temporary file, found 100 taken");
}

void remember_temporary(const fs::path& path) {
  const std::string& name = path.native();
  for (Slot& slot : remembered) {
    if (name.size() >= slot.path.size() || slot.taken.exchange(true)) continue;
    std::memcpy(slot.path.data(), name.c_str(), name.size() + 1);
    slot.whole = true;
    return;
  }
}

void forget_temporary(const fs::path& path) {
  for (Slot& slot : remembered)
    if (slot.whole && path.native() == slot.path.data()) {
      slot.whole = false;
      slot.taken = false;
    }
}

void remove_temporaries_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(number, end_without_temporaries) == SIG_IGN) std::signal(number, SIG_IGN);
}

bool is_temporary_name(std::string_view name) {
  const size_t at = name.rfind(mark);
  if (at == name.npos) return false;
  const std::string_view digits = name.substr(at + mark.size());
  return !digits.empty() && digits.size() <= 16 &&
         digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

void remove_abandoned(const fs::path& folder, std::string_view of) {
  std::error_code problem;  // what cannot be listed stays
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, problem), end;
       !problem && entry != end; entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const bool wanted = of.empty() || (name.starts_with(of) && name.rfind(mark) == of.size());
    if (wanted && is_temporary_name(name))
      remove_if_abandoned(entry->path(), [](const fs::path& path) { ::unlink(path.c_str()); });
  }
}

}  // namespace deltasane
