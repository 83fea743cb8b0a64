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

#include "format/contents/checksummed.h"

namespace deltasane {

// In the order of the central directory; their checksums are not yet verified.
std::vector<ChecksummedBytes> read_zip(std::span<const std::byte> bytes, const std::string& name);

// Whether there is a checksum to verify.
bool states_checksums(const std::vector<ChecksummedBytes>& entries);

}  // namespace deltasane
