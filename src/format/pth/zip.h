// The subset of ZIP that PyTorch writes, parsed strictly: stored (uncompressed) entries, ZIP64
// where present, sizes from the central directory.
//
// Rejected: compression, encryption, archive comments and bytes after the directory, split
// archives, names that are absolute or contain "..", repeated names, entries that overlap or extend
// past the file, local headers or descriptors that contradict the directory, and entries whose
// CRC-32 is not the stated one. PyTorch can omit checksums: then all of them are zero, and there is
// nothing to verify.
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
  uint64_t offset = 0;    // of the first byte in the archive
  uint32_t checksum = 0;  // as stated
};

// In the order of the central directory; their checksums are not yet verified.
std::vector<ZipEntry> read_zip(std::span<const std::byte> bytes, const std::string& name);

// Reads every byte of the entries, on several threads where they are large.
void verify_checksums(const std::vector<ZipEntry>& entries, const std::string& name);

}  // namespace deltasane
