#include "base/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/io/folder_lock.h"
#include "base/io/mapped_ranges.h"
#include "base/io/temporary_file.h"

namespace deltasane {
namespace {

[[noreturn]] void fail_errno(const fs::path& path, std::string_view action) {
  fail(Fault::file, path, ": cannot ", action, ": ", std::strerror(errno));
}

// A descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

void write_all(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(path, "write");
    bytes = bytes.subspan(size_t(written));
  }
}

size_t regular_file_size(int descriptor, const fs::path& path) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail_errno(path, "read its size");
  if (!S_ISREG(status.st_mode)) fail(Fault::file, path, ": expected a regular file");
  return size_t(status.st_size);
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// What a path leads to through symbolic links; the last may lead to nothing yet.
fs::path without_links(fs::path path) {
  constexpr int longest_chain = 40;  // as the kernel has it
  for (int i = 0; i < longest_chain; ++i) {
    std::error_code problem;
    if (!fs::is_symlink(fs::symlink_status(path, problem))) return path;
    const fs::path next = fs::read_symlink(path, problem);
    if (problem) fail(Fault::file, path, ": cannot follow the link: ", problem.message());
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  fail(Fault::file, path, ": expected at most ", longest_chain, " links, found more");
}

// The permissions of the file that will be replaced; none where there is none.
std::optional<mode_t> permissions_of(const fs::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode))
    fail(Fault::file, path, ": expected a regular file or a new name to write to, found ",
         kind_of(status.st_mode));
  return status.st_mode & 0777;
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) fail_errno(path, "open");
  size_ = regular_file_size(file.number, path);
  if (size_ == 0) return;
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) fail_errno(path, "map");
  data_ = static_cast<const std::byte*>(data);
  remembered_ = remember_mapping(data, size_, path);
}

void MappedFile::release() {
  forget_mapping(std::exchange(remembered_, -1));
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

void MappedFile::drop_pages() const {
  // Advisory: failure is harmless.
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() { release(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      remembered_(std::exchange(other.remembered_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    remembered_ = std::exchange(other.remembered_, -1);
  }
  return *this;
}

std::string read_file(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

AtomicFile::AtomicFile(const fs::path& path) {
  const std::optional<mode_t> replaced = permissions_of(path);
  path_ = without_links(path);
  remove_abandoned(path_.parent_path(), path_.filename().string());
  TemporaryFile made = create_temporary(path_, replaced ? 0600 : 0666);
  temporary_ = std::move(made.path);
  descriptor_ = made.descriptor;
  remember_temporary(temporary_);
  if (!replaced || ::fchmod(descriptor_, *replaced) == 0) return;
  const int reason = errno;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
  forget_temporary(temporary_);
  errno = reason;
  fail_errno(path_, "set the permissions");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());
  forget_temporary(temporary_);
  ::close(descriptor_);  // and with it the lock
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes, path_);
  size_ += bytes.size();
}

void AtomicFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  require(offset <= size_ && bytes.size() <= size_ - offset, "overwrite stays inside the file");
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(path_, "write");
    bytes = bytes.subspan(size_t(written));
    offset += uint64_t(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(path_, "flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_, "replace");
  forget_temporary(temporary_);
  ::close(std::exchange(descriptor_, -1));
  flush_folder(path_.parent_path());
}

void replace_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

bool try_replace_file(const fs::path& path, std::span<const std::byte> bytes) {
  try {
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
    return true;
  } catch (const Error&) {
    return false;
  }
}

ScratchFile::ScratchFile() : folder_(fs::temp_directory_path()) {
  std::string name = (folder_ / "deltasane-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_errno(folder_, "create a temporary file");
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ScratchFile::flush() {
  write_all(descriptor_, std::as_bytes(std::span(buffer_)), folder_);
  size_ += buffer_.size();
  buffer_.clear();
}

void ScratchFile::write(std::string_view text) {
  require(descriptor_ >= 0, "a scratch file is written before it is mapped");
  buffer_ += text;
  if (buffer_.size() >= size_t{1} << 20) flush();
}

std::string_view ScratchFile::map() {
  if (descriptor_ >= 0) {
    flush();
    if (size_ > 0) {
      void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
      if (data == MAP_FAILED) fail_errno(folder_, "map a temporary file");
      data_ = static_cast<const std::byte*>(data);
    }
    ::close(std::exchange(descriptor_, -1));
  }
  return {reinterpret_cast<const char*>(data_), size_};
}

}  // namespace deltasane
