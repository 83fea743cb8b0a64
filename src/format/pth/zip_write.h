// Writes a ZIP archive of stored entries, as PyTorch lays one out: the bytes of every entry begin at
// a multiple of 64, by an extra field in its local header, and there are 64-bit end records. Entries
// and archives may be larger than 4 GiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/io/file.h"

namespace deltasane {

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  void add(const std::string& name, std::string_view bytes);
  // The same in pieces: exactly `size` bytes in all.
  void begin(const std::string& name, uint64_t size);
  void write(std::span<const std::byte> piece);
  void end();

  void finish();  // the directory; nothing can be added then

 private:
  struct Entry {
    std::string name;
    uint64_t size, local;
    uint32_t checksum = 0;
    bool large() const;
  };

  AtomicFile& file_;
  std::vector<Entry> entries_;
  uint64_t written_ = 0;  // of the entry that is written
};

}  // namespace deltasane
