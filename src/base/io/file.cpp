#include "base/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

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

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) fail_errno(path, "open");
  size_ = regular_file_size(file.number, path);
  if (size_ == 0) return;
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) fail_errno(path, "map");
  data_ = static_cast<const std::byte*>(data);
}

void MappedFile::release() {
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
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

std::string read_file(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

AtomicFile::AtomicFile(const fs::path& path)
    : path_(path), temporary_(path.string() + cat(".tmp-", ::getpid())) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_errno(temporary_, "create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes, temporary_);
  size_ += bytes.size();
}

void AtomicFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  require(offset <= size_ && bytes.size() <= size_ - offset, "overwrite stays inside the file");
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(temporary_, "write");
    bytes = bytes.subspan(size_t(written));
    offset += uint64_t(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(temporary_, "flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_, "replace");
  ::close(std::exchange(descriptor_, -1));
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const Descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number < 0 || ::fsync(directory.number) != 0) fail_errno(folder, "flush");
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
