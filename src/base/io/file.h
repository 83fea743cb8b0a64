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

  // Drops the resident pages of the mapping; they are read from the file again on the next access.
  void drop_pages() const;

 private:
  void release();
  fs::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int remembered_ = -1;  // see mapped_ranges.h
};

std::string read_file(const fs::path& path);

// Writes a temporary file beside `path` (temporary_file.h). commit() makes it durable and atomically
// replaces `path`: flush to disk, rename, flush the directory. Without commit() the temporary file
// is removed. Those of writers that were killed are removed by the next one that writes `path`.
//
// - A file that is there passes its permissions on; a new one has those of the umask.
// - A symbolic link is followed: what it leads to is replaced, and the link stays.
// - A device, a pipe, a socket or a folder is refused.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Overwrites bytes that were written before: a header that is known only at the end.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }
  void commit();

 private:
  fs::path path_, temporary_;  // path_: without links
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

void replace_file(const fs::path& path, std::string_view text);
// False where the file cannot be written: for what is kept only to save time.
bool try_replace_file(const fs::path& path, std::span<const std::byte> bytes);

// Bytes that are too many for memory: written to a file without a name in the folder for temporary
// files (TMPDIR), then mapped. It is gone with the object, or with the process.
class ScratchFile {
 public:
  ScratchFile();
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(std::string_view text);
  uint64_t size() const { return size_ + buffer_.size(); }
  // All that was written; nothing may be written afterwards.
  std::string_view map();

 private:
  void flush();
  int descriptor_ = -1;
  fs::path folder_;
  std::string buffer_;
  uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace deltasane
