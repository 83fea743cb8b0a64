// The part of ZIP that PyTorch writes, read strictly: stored (never compressed) entries, ZIP64
// where present, sizes from the central directory.
//
// Refused: compression, encryption, archive comments and bytes after the directory, split archives,
// names that are absolute or hold "..", two entries of one name, entries that overlap or leave the
// file, and local headers that contradict the directory. Checksums are not verified: PyTorch can be
// told not to compute them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace deltasane {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;
  uint64_t offset = 0;  // of the first byte in the archive
};

// In the order of the central directory.
std::vector<ZipEntry> read_zip(std::span<const std::byte> bytes, const std::string& name);

}  // namespace deltasane
