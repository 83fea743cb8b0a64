#include "format/parquet/rle.h"

namespace deltasane::parquet {

uint64_t read_varint(ByteReader& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = in.number<uint8_t>("a number");
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
  in.reject("expected a number of at most 10 bytes, found a longer one");
}

void RleReader::begin_run() {
  const uint64_t head = read_varint(in_);
  packed_ = head & 1;
  if (packed_) {
    const uint64_t groups = head >> 1;  // of eight values
    if (groups == 0 || (width_ > 0 && groups > in_.remaining()))
      in_.reject("expected packed values, found ", groups, " groups of them");
    // The last group may be cut off behind the values that are used.
    const uint64_t bytes = std::min(groups * uint64_t(width_), in_.remaining());
    bits_ = PackedBits(in_.take(bytes, "packed values"), width_);
    left_ = width_ > 0 ? bytes * 8 / uint64_t(width_) : std::min<uint64_t>(groups, 1u << 28) * 8;
    if (left_ == 0) in_.reject("expected packed values, found the end");
  } else {
    left_ = head >> 1;
    if (left_ == 0) in_.reject("expected a run of values, found an empty one");
    value_ = 0;
    for (int i = 0; i < (width_ + 7) / 8; ++i)
      value_ |= uint32_t(in_.number<uint8_t>("value of a run")) << (8 * i);
    if (width_ < 32 && value_ >> width_)
      in_.reject("expected a value of ", width_, " bits, found ", value_);
  }
}

}  // namespace deltasane::parquet
