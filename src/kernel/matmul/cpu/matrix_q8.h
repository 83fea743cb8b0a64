// q8 weights times 8-bit tokens with matrix instructions. For files compiled per instruction set.
#pragma once

#include "kernel/isa_half.h"
#include "kernel/matmul/cpu/matrix_tile.h"
#include "kernel/matmul/cpu/partial_tile.h"

namespace deltasane::kernel {
namespace {

// 8 rows by 32 columns: a strip for every 8 columns. Scales are stored as they are multiplied, for
// a pair of rows (r0, r1, r0, r1).
struct StripBlock {
  int8_t value[q8_columns / 8][strip_rows][8];
  float scale[strip_rows / 2][4];
};

template <Isa isa>
void copy_strips(const Q8Block& from, StripBlock& to) {
  typedef Vector<4>::Int Int;
  typedef int32_t Loose __attribute__((vector_size(16), aligned(2), may_alias));
  for (int c = 0; c < q8_columns / 8; ++c)
    for (int r = 0; r < q8_rows; r += 4) {  // 4 columns of 4 rows are a vector
      const Int first = *reinterpret_cast<const Loose*>(from.value[2 * c][r]);
      const Int second = *reinterpret_cast<const Loose*>(from.value[2 * c + 1][r]);
      const Int low = __builtin_shufflevector(first, second, 0, 4, 1, 5);
      const Int high = __builtin_shufflevector(first, second, 2, 6, 3, 7);
      __builtin_memcpy(to.value[c][r], &low, sizeof low);
      __builtin_memcpy(to.value[c][r + 2], &high, sizeof high);
    }
  for (int r = 0; r < q8_rows; r += 4) {
    const Vector<4>::Vec four = load_f16<isa, 4>(from.scale + r);
    Simd<4>::store(to.scale[r / 2], __builtin_shufflevector(four, four, 0, 1, 0, 1));
    Simd<4>::store(to.scale[r / 2 + 1], __builtin_shufflevector(four, four, 2, 3, 2, 3));
  }
}

// Four tokens by 8 rows. More tokens would leave no registers for both the integers and the sums.
template <Isa isa>
struct ByteTile {
  static constexpr int64_t tokens = cpu::q8_tokens, rows = strip_rows;
  typedef Vector<4>::Vec Vec;
  typedef Vector<4>::Int Int;
  MatrixSums<isa, Vec, int(tokens)> sums{Vec{}};

  // x: the strips of a block; scale: of its tokens.
  [[gnu::always_inline]] inline void accumulate(const StripBlock& w, const int8_t* x,
                                                const float* scale) {
    // Integers below 2^22, added to the bits of this float, become floats without an instruction: a
    // unit in its last place is 1.
    constexpr float zero = 0x1.8p23f;
    MatrixSums<isa, Int, int(tokens)> products(Int{} + __builtin_bit_cast(int32_t, zero));
#pragma GCC unroll 4
    for (int c = 0; c < q8_columns / 8; ++c)
      products.template accumulate<1>(x + c * tokens * 8,
                                      StripRows<isa, int8_t>(w.value[c][0]).pair);
    const Vec four = Simd<4>::load(scale);
    const Vec pairs[2] = {__builtin_shufflevector(four, four, 0, 0, 1, 1),
                          __builtin_shufflevector(four, four, 2, 2, 3, 3)};
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const Vec row_scales = Simd<4>::load(w.scale[q]);
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p)
        sums.sum[p][q] +=
            (reinterpret_cast<Vec>(products.sum[p][q]) - zero) * (row_scales * pairs[p]);
    }
  }
  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
    sums.store(y, how);
  }
};

// y's columns of a panel of rows. Some tokens at a time stay in L2 for all rows of the panel, which
// are taken eight by eight and stay in L1.
template <Isa isa>
void multiply_strips(const cpu::Q8Product& p, int64_t first_row, cpu::Range groups,
                     StripBlock* panel) {
  constexpr int64_t together = 64 / cpu::q8_tokens;
  using Tile = ByteTile<isa>;
  const int64_t blocks = q8_blocks(p.in), panel_end = first_row + cpu::q8_panel_rows(isa);
  const int64_t end_row = panel_end < p.rows ? panel_end : p.rows;
  for (int64_t row = first_row; row < end_row; row += q8_rows)
    for (int64_t b = 0; b < blocks; ++b)
      copy_strips<isa>(p.w[row / q8_rows * blocks + b],
                       panel[(row - first_row) / q8_rows * blocks + b]);
  for (int64_t some = groups.begin; some < groups.end; some += together)
    for (int64_t row = first_row; row < end_row; row += q8_rows) {
      const StripBlock* w = panel + (row - first_row) / q8_rows * blocks;
      for (int64_t group = some; group < groups.end && group < some + together; ++group) {
        const int64_t token = group * Tile::tokens;
        const int8_t* x = p.x.value + token * blocks * q8_columns;
        const float* scale = p.x.scale + token * blocks;
        Tile tile;
        for (int64_t b = 0; b < blocks; ++b)
          tile.accumulate(w[b], x + b * Tile::tokens * q8_columns, scale + b * Tile::tokens);
        store_part(tile, {p.y.at(token) + row, p.y.stride}, {p.x.tokens - token, p.rows - row},
                   p.sum);
      }
    }
}

}  // namespace
}  // namespace deltasane::kernel
