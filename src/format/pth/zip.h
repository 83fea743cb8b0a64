// The subset of ZIP that PyTorch writes, parsed strictly: stored (uncompressed) entries, ZIP64
// where present, sizes from the central directory.
//
// Rejected: compression, encryption, archive comments and bytes after the directory, split
// archives, names that are absolute or contain "..", repeated names, entries that overlap or extend
// past the file, and local headers that contradict the directory. Checksums are not verified:
// PyTorch can omit them.
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
