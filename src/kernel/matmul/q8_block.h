// q8 weights: blocks of 8 rows by 32 columns, interleaved in the order in which a product of 8-bit
// numbers reads them, so that one token and many tokens stream the same bytes once.
// Rows and columns past the end of the matrix are zero. Plain declarations only.
#pragma once

#include <cstdint>

namespace deltasane::kernel {

inline constexpr int q8_rows = 8, q8_columns = 32;

struct Q8Block {
  uint16_t scale[q8_rows];                   // f16
  int8_t value[q8_columns / 4][q8_rows][4];  // (column / 4, row, column % 4)
};
static_assert(sizeof(Q8Block) == q8_rows * 34, "no more memory than GGUF's Q8_0");

constexpr int64_t q8_blocks(int64_t in) { return (in + q8_columns - 1) / q8_columns; }
constexpr int64_t q8_groups(int64_t out) { return (out + q8_rows - 1) / q8_rows; }

}  // namespace deltasane::kernel
