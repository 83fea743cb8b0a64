// DELTA_BINARY_PACKED: integers as differences, in blocks of packed bits.
//
//   varints  values per block, parts per block, values in all; the first value, zigzag
//   block    the smallest difference, zigzag; a width per part; the parts: difference - smallest
#pragma once

#include <cstdint>
#include <vector>

#include "format/parquet/rle.h"

namespace deltasane::parquet {

class DeltaReader {
 public:
  DeltaReader() = default;
  // `name` must outlive the reader. More than `most` values are rejected: where all differences are
  // equal, a few bytes could promise any number of them.
  DeltaReader(std::span<const std::byte> bytes, std::string_view name, uint64_t most);

  uint64_t count() const { return count_; }
  int64_t next();  // fails behind the last one
  // The bytes behind all values.
  std::span<const std::byte> rest() const;

 private:
  int64_t zigzag();
  void begin_part();

  std::span<const std::byte> bytes_;
  ByteReader in_{{}, {}};
  uint64_t count_ = 0, done_ = 0, parts_ = 0, part_values_ = 0, part_ = 0, left_in_part_ = 0;
  uint64_t smallest_ = 0, value_ = 0;  // sums wrap around
  std::span<const std::byte> widths_;
  PackedBits bits_;
};

}  // namespace deltasane::parquet
