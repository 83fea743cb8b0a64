// Files: read whole, mapped, or replaced so that a reader or a crash sees the old file or the new
// one, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace deltasane {

namespace fs = std::filesystem;

// A file's bytes, mapped read-only. Opening anything but a regular file is an error.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const fs::path& path() const { return path_; }

  // What was read no longer counts as this process's memory; it is read again where it is needed.
  void forget() const;

 private:
  void release();
  fs::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

std::string read_file(const fs::path& path);

// Writes a sibling of `path` piece by piece. commit() makes it durable and puts it in the place of
// `path`: flush to disk, rename, flush the directory. Without commit() nothing is left behind.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Puts bytes over ones that were written before: a header that is known only at the end.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }
  void commit();

 private:
  fs::path path_, sibling_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

void replace_file(const fs::path& path, std::string_view text);

}  // namespace deltasane
