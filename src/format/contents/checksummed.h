// Bytes of a file whose CRC-32 the file states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/printable.h"

namespace deltasane {

struct ChecksummedBytes {
  std::string name;  // of the entry
  std::span<const std::byte> bytes;
  uint64_t offset = 0;    // of the first byte in the file
  uint32_t checksum = 0;  // as stated
};

inline void expect_checksum(const std::string& file, const ChecksummedBytes& stated,
                            uint32_t found) {
  if (found != stated.checksum)
    fail(Fault::file, file, ": at byte ", stated.offset, ": entry ", printable(stated.name),
         ": expected the checksum ", stated.checksum, ", found ", found, "; the file is damaged");
}

enum class Checksums {
  verify,
  skip,  // where the file is opened again, and to measure what verifying costs
};

}  // namespace deltasane
