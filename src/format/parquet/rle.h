// Small integers in runs, and packed bit by bit: levels, indices into a dictionary, truth values.
//
// Values are decoded one at a time, so that a run that claims billions takes no room.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/io/byte_reader.h"

namespace deltasane::parquet {

// `count` numbers of `width` bits each, one after another, lowest bits first.
class PackedBits {
 public:
  PackedBits() = default;
  PackedBits(std::span<const std::byte> bytes, int width) : bytes_(bytes), width_(width) {}

  // The caller knows how many there are.
  uint64_t next() {
    uint64_t value = 0;
    for (int got = 0; got < width_;) {
      const int shift = int(bit_ & 7), taken = std::min(8 - shift, width_ - got);
      const uint64_t part = uint64_t(bytes_[bit_ >> 3]) >> shift & ((1u << taken) - 1);
      value |= part << got;
      got += taken;
      bit_ += uint64_t(taken);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  int width_ = 0;
  uint64_t bit_ = 0;
};

class RleReader {
 public:
  RleReader() = default;
  // `width` is at most 32; `name` must outlive the reader.
  RleReader(std::span<const std::byte> bytes, int width, std::string_view name)
      : in_(bytes, name), width_(width) {}

  uint32_t next() {
    if (left_ == 0) begin_run();
    --left_;
    return packed_ ? uint32_t(bits_.next()) : value_;
  }

 private:
  void begin_run();

  ByteReader in_{{}, {}};
  int width_ = 0;
  uint64_t left_ = 0;
  bool packed_ = false;
  uint32_t value_ = 0;
  PackedBits bits_;
};

// A number in groups of seven bits, of at most 64 bits.
uint64_t read_varint(ByteReader& in);

}  // namespace deltasane::parquet
