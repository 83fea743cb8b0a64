// For files compiled per instruction set.
#pragma once

#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/cpu/tile_quantized.h"

namespace deltasane::kernel {
namespace {

// q8 weights for a RowsPacker (tile_quantized.h). Later rows are prefetched: a row's part of a panel is short, and
// the hardware's prefetcher starts too late.
template <Isa isa>
class Q8Reader {
 public:
  static constexpr int scales = 1;
  static constexpr bool minimum = false;
  float factor[2][1][q8_rows];

  Q8Reader(const cpu::QuantizedRows& from, const cpu::QuantizedRows& later)
      : blocks_(q8_blocks(from.in)), first_(first_of(from)), later_(first_of(later) - first_) {}

  [[gnu::always_inline]] inline void read(int64_t group, int64_t b, int which) {
    block_[which] = first_ + group * blocks_ + b;
    load_halves<isa>(block_[which]->scale, factor[which][0]);
  }
  [[gnu::always_inline]] inline const EightRows& value(int which) const {
    return block_[which]->value;
  }
  // A line of a block; what is past the fourth is the first of the block after it.
  [[gnu::always_inline]] inline void prefetch(int which, int c) const {
    __builtin_prefetch(reinterpret_cast<const char*>(block_[which] + later_) + c * 64, 0, 2);
  }

 private:
  static const Q8Block* first_of(const cpu::QuantizedRows& rows) {
    return static_cast<const Q8Block*>(rows.w) + rows.row / q8_rows * q8_blocks(rows.in) +
           rows.column / q8_columns;
  }

  int64_t blocks_;
  const Q8Block* first_;
  int64_t later_;
  const Q8Block* block_[2] = {first_, first_};
};

}  // namespace
}  // namespace deltasane::kernel
