#include "format/parquet/delta.h"

namespace deltasane::parquet {

int64_t DeltaReader::zigzag() {
  const uint64_t value = read_varint(in_);
  return int64_t(value >> 1) ^ -int64_t(value & 1);
}

DeltaReader::DeltaReader(std::span<const std::byte> bytes, std::string_view name, uint64_t most)
    : bytes_(bytes), in_(bytes, name) {
  const uint64_t block = read_varint(in_);
  parts_ = read_varint(in_);
  count_ = read_varint(in_);
  value_ = uint64_t(zigzag());
  if (count_ > most) in_.reject("expected at most ", most, " values, found ", count_);
  constexpr uint64_t largest_block = uint64_t{1} << 24;
  if (parts_ == 0 || block > largest_block || block == 0 || block % parts_ != 0 || block / parts_ % 8 != 0)
    in_.reject("expected blocks of parts of a multiple of 8 values, found ", block, " in ", parts_);
  part_values_ = block / parts_;
  part_ = parts_;
}

void DeltaReader::begin_part() {
  if (part_ == parts_) {
    smallest_ = uint64_t(zigzag());
    widths_ = in_.take(parts_, "widths of differences");
    part_ = 0;
  }
  const int width = int(widths_[part_++]);
  if (width > 64) in_.reject("expected differences of at most 64 bits, found ", width);
  bits_ = PackedBits(in_.take(part_values_ / 8 * uint64_t(width), "differences"), width);
  left_in_part_ = part_values_;
}

int64_t DeltaReader::next() {
  if (done_ == count_) in_.reject("expected ", count_, " values, found more to be read");
  if (done_++ > 0) {
    if (left_in_part_ == 0) begin_part();
    --left_in_part_;
    value_ += smallest_ + bits_.next();
  }
  return int64_t(value_);
}

std::span<const std::byte> DeltaReader::rest() const {
  DeltaReader copy = *this;
  while (copy.done_ < copy.count_) copy.next();
  return bytes_.subspan(copy.in_.offset());
}

}  // namespace deltasane::parquet
