// Loaded before the C library (LD_PRELOAD), into the program under test:
//
//   DELTASANE_FAULT=CALL:N:ERRNO     the N-th call fails so; CALL:N:ERRNO:on: and all later ones
//   DELTASANE_FAULT_COUNTS=FILE      how often each call was made, when the program ends
//   DELTASANE_FAULT_LOG=FILE         what was written, flushed, renamed..., for a replay
//   DELTASANE_FAULT_ROOT=FOLDER      of files below this folder only (the log)
//
// CALL: open, write, fsync, rename, mkdir, unlink, truncate, map, allocate. Nothing is flushed to
// the disk, which a test need not wait for. Hooks allocate nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

enum Call {
  open_call,
  write_call,
  fsync_call,
  rename_call,
  mkdir_call,
  unlink_call,
  truncate_call,
  map_call,
  allocate_call,
  calls
};
constexpr const char* names[calls] = {"open",   "write",    "fsync", "rename",  "mkdir",
                                      "unlink", "truncate", "map",   "allocate"};

std::atomic<long> counts[calls];
int faulty = -1, reason = 0;
long when = 0;
bool onwards = false;
std::atomic<bool> ready{false};
int log_file = -1;
std::atomic_flag log_lock = ATOMIC_FLAG_INIT;
char root[4096];

long raw_write(int file, const void* bytes, size_t size) {
  return ::syscall(SYS_write, file, bytes, size);
}

// Text in a buffer of its own; what does not fit is left out.
template <size_t room>
struct Line {
  char text[room] = {};
  size_t size = 0;
  Line& add(const char* more) {
    while (*more && size + 1 < room) text[size++] = *more++;
    return *this;
  }
  Line& add(long number) {
    char digits[24] = {};
    std::to_chars(digits, digits + sizeof digits - 1, number);
    return add(digits);
  }
};

struct Setup {
  Setup() {
    if (const char* fault = std::getenv("DELTASANE_FAULT")) {
      for (int i = 0; i < calls; ++i)
        if (std::strncmp(fault, names[i], std::strcspn(fault, ":")) == 0) faulty = i;
      char* rest = nullptr;
      when = std::strtol(fault + std::strcspn(fault, ":") + 1, &rest, 10);
      reason = int(std::strtol(rest + 1, &rest, 10));
      onwards = std::strcmp(rest, ":on") == 0;
    }
    if (const char* path = std::getenv("DELTASANE_FAULT_LOG"))
      log_file = int(
          ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (const char* path = std::getenv("DELTASANE_FAULT_ROOT"))
      std::strncpy(root, path, sizeof root - 1);
    ready = true;
  }
  ~Setup() {
    ready = false;
    const char* const path = std::getenv("DELTASANE_FAULT_COUNTS");
    if (!path) return;
    const int file = int(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    for (int i = 0; i < calls; ++i) {
      Line<64> line;
      line.add(names[i]).add(" ").add(counts[i].load()).add("\n");
      raw_write(file, line.text, line.size);
    }
    ::close(file);
  }
};
Setup setup;

bool fails(Call call) {
  if (!ready.load(std::memory_order_relaxed)) return false;
  const long now = ++counts[call];
  if (call != faulty || (onwards ? now < when : now != when)) return false;
  errno = reason;
  return true;
}

template <class Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// One entry: a line of text, then so many bytes.
void log_entry(const char* line, const void* bytes = nullptr, size_t size = 0) {
  while (log_lock.test_and_set()) {
  }
  raw_write(log_file, line, std::strlen(line));
  if (size) raw_write(log_file, bytes, size);
  log_lock.clear();
}

bool path_of(int file, char (&path)[4096]) {
  const ssize_t size =
      ::readlink(Line<64>().add("/proc/self/fd/").add(long(file)).text, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return true;
}

bool is_logged(const char* path) {
  return log_file >= 0 && root[0] && std::strncmp(path, root, std::strlen(root)) == 0;
}

long inode_of(int file) {
  struct stat status {};
  ::fstat(file, &status);
  return long(status.st_ino);
}

void log_path(const char* what, const char* path, const char* other = "") {
  if (!is_logged(path)) return;
  log_entry(Line<9000>().add(what).add(" 0 0 0 ").add(path).add("\t").add(other).add("\n").text);
}

void log_file_entry(const char* what, int file, long offset, const void* bytes = nullptr,
                    size_t size = 0) {
  char path[4096];
  if (log_file < 0 || !path_of(file, path) || !is_logged(path)) return;
  Line<4300> line;
  line.add(what).add(" ").add(inode_of(file)).add(" ").add(offset).add(" ").add(long(size));
  log_entry(line.add(" ").add(path).add("\t\n").text, bytes, size);
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  if (fails(open_call)) return -1;
  const bool creates =
      (flags & O_CREAT) && ::faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
  const int file = int(::syscall(SYS_openat, folder, path, flags, mode));
  if (file >= 0 && creates) log_file_entry("create", file, 0);
  if (file >= 0 && (flags & O_TRUNC)) log_file_entry("truncate", file, 0);
  return file;
}

mode_t mode_from(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) ? mode_t(va_arg(rest, int)) : 0;
}

// The absolute path of a name in a folder.
void full_path(int folder, const char* name, char (&path)[4096]) {
  char base[4096] = "";
  if (name[0] != '/' && folder != AT_FDCWD) path_of(folder, base);
  const Line<4096> all = Line<4096>().add(base).add(base[0] ? "/" : "").add(name);
  std::memcpy(path, all.text, sizeof path);
}

long before_write(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  struct stat status {};
  if (flags & O_APPEND) return ::fstat(file, &status) == 0 ? long(status.st_size) : 0;
  return long(::lseek(file, 0, SEEK_CUR));
}

int flushed(int file) {
  if (fails(fsync_call)) return -1;
  log_file_entry("fsync", file, 0);
  return 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_from(flags, rest);
  va_end(rest);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_from(flags, rest);
  va_end(rest);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_from(flags, rest);
  va_end(rest);
  return open_at(folder, path, flags, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  if (fails(open_call)) return nullptr;
  return next_of<FILE* (*)(const char*, const char*)>("fopen64")(path, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (fails(open_call)) return nullptr;
  return next_of<FILE* (*)(const char*, const char*)>("fopen")(path, mode);
}

ssize_t write(int file, const void* bytes, size_t size) {
  if (file > 2 && fails(write_call)) return -1;
  const long offset = log_file >= 0 ? before_write(file) : 0;
  const ssize_t written = raw_write(file, bytes, size);
  if (written > 0) log_file_entry("write", file, offset, bytes, size_t(written));
  return written;
}
ssize_t writev(int file, const iovec* parts, int count) {
  if (file > 2 && fails(write_call)) return -1;
  return ::syscall(SYS_writev, file, parts, count);
}
ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  if (fails(write_call)) return -1;
  const ssize_t written = ::syscall(SYS_pwrite64, file, bytes, size, offset);
  if (written > 0) log_file_entry("write", file, long(offset), bytes, size_t(written));
  return written;
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  return pwrite(file, bytes, size, off_t(offset));
}
int fsync(int file) { return flushed(file); }
int fdatasync(int file) { return flushed(file); }

int rename(const char* from, const char* to) {
  if (fails(rename_call)) return -1;
  const int result = int(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (result == 0) log_path("rename", from, to);
  return result;
}
int mkdir(const char* path, mode_t mode) {
  if (fails(mkdir_call)) return -1;
  const int result = int(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0) log_path("mkdir", path);
  return result;
}
int unlinkat(int folder, const char* name, int flags) {
  if (fails(unlink_call)) return -1;
  const int result = int(::syscall(SYS_unlinkat, folder, name, flags));
  char path[4096];
  full_path(folder, name, path);
  if (result == 0) log_path("unlink", path);
  return result;
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  const int result = unlinkat(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : result;
}
int ftruncate(int file, off_t size) {
  if (fails(truncate_call)) return -1;
  const int result = int(::syscall(SYS_ftruncate, file, size));
  if (result == 0) log_file_entry("truncate", file, long(size));
  return result;
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, off_t(size)); }
void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  if (fails(map_call)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, size, protection, flags, file, offset));
}
void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset) {
  return mmap(at, size, protection, flags, file, off_t(offset));
}

void* malloc(size_t size) { return fails(allocate_call) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return fails(allocate_call) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return fails(allocate_call) ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return fails(allocate_call) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (fails(allocate_call)) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}

}  // extern "C"
