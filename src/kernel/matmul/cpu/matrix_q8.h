// q8 weights times 8-bit tokens with matrix instructions. For files compiled per instruction set.
#pragma once

#include "kernel/isa_half.h"
#include "kernel/matmul/cpu/matrix_tile.h"
#include "kernel/matmul/cpu/partial_tile.h"

namespace deltasane::kernel {
namespace {

// 8 rows by 32 columns: a strip for every 8 columns, and the factors of each row, as q8_tile.h has
// them. They are stored as they are multiplied, for a pair of rows (r0, r1, r0, r1).
template <int scale_count, bool has_minimum>
struct StripBlock {
  static constexpr int scales = scale_count;
  static constexpr bool minimum = has_minimum;
  int8_t value[q8_columns / 8][strip_rows][8];
  float factor[scales + minimum][strip_rows / 2][4];
};

// 4 rows from r.
[[gnu::always_inline]] inline void put_factors(float (&to)[strip_rows / 2][4], int r,
                                               Vector<4>::Vec four) {
  Simd<4>::store(to[r / 2], __builtin_shufflevector(four, four, 0, 1, 0, 1));
  Simd<4>::store(to[r / 2 + 1], __builtin_shufflevector(four, four, 2, 3, 2, 3));
}

// from: (column / 4, row, column % 4)
template <class Block>
void copy_strip_values(const int8_t (&from)[q8_columns / 4][q8_rows][4], Block& to) {
  typedef Vector<4>::Int Int;
  typedef int32_t Loose __attribute__((vector_size(16), aligned(2), may_alias));
  for (int c = 0; c < q8_columns / 8; ++c)
    for (int r = 0; r < q8_rows; r += 4) {  // 4 columns of 4 rows are a vector
      const Int first = *reinterpret_cast<const Loose*>(from[2 * c][r]);
      const Int second = *reinterpret_cast<const Loose*>(from[2 * c + 1][r]);
      const Int low = __builtin_shufflevector(first, second, 0, 4, 1, 5);
      const Int high = __builtin_shufflevector(first, second, 2, 6, 3, 7);
      __builtin_memcpy(to.value[c][r], &low, sizeof low);
      __builtin_memcpy(to.value[c][r + 2], &high, sizeof high);
    }
}

template <Isa isa>
void copy_strips(const Q8Block& from, StripBlock<1, false>& to) {
  copy_strip_values(from.value, to);
  for (int r = 0; r < q8_rows; r += 4)
    put_factors(to.factor[0], r, load_f16<isa, 4>(from.scale + r));
}

// Four tokens by 8 rows. More tokens would leave no registers for both the integers and the sums.
template <Isa isa>
struct ByteTile {
  static constexpr int64_t tokens = cpu::q8_tokens, rows = strip_rows;
  typedef Vector<4>::Vec Vec;
  typedef Vector<4>::Int Int;
  MatrixSums<isa, Vec, int(tokens)> sums{Vec{}};

  // x: the strips of a block; scale, total: of its tokens.
  template <class Block>
  [[gnu::always_inline]] inline void accumulate(const Block& w, const int8_t* x,
                                                const float* scale, const cpu::HalfSums* total) {
    // Integers below 2^22, added to the bits of this float, become floats without an instruction: a
    // unit in its last place is 1.
    constexpr float zero = 0x1.8p23f;
    constexpr int per_scale = q8_columns / 8 / Block::scales;
    const Vec four = Simd<4>::load(scale);
    const Vec pairs[2] = {__builtin_shufflevector(four, four, 0, 0, 1, 1),
                          __builtin_shufflevector(four, four, 2, 2, 3, 3)};
#pragma GCC unroll 2
    for (int s = 0; s < Block::scales; ++s) {
      MatrixSums<isa, Int, int(tokens)> products(Int{} + __builtin_bit_cast(int32_t, zero));
#pragma GCC unroll 4
      for (int c = s * per_scale; c < (s + 1) * per_scale; ++c)
        products.template accumulate<1>(x + c * tokens * 8,
                                        StripRows<isa, int8_t>(w.value[c][0]).pair);
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const Vec row_scales = Simd<4>::load(w.factor[s][q]);
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p)
          sums.sum[p][q] +=
              (reinterpret_cast<Vec>(products.sum[p][q]) - zero) * (row_scales * pairs[p]);
      }
    }
    if constexpr (Block::minimum) {
      const Int inputs{total[0].all(), total[1].all(), total[2].all(), total[3].all()};
      const Vec all = four * __builtin_convertvector(inputs, Vec);
      const Vec totals[2] = {__builtin_shufflevector(all, all, 0, 0, 1, 1),
                             __builtin_shufflevector(all, all, 2, 2, 3, 3)};
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const Vec minimums = Simd<4>::load(w.factor[Block::scales][q]);
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) sums.sum[p][q] -= minimums * totals[p];
      }
    }
  }
  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
    sums.store(y, how);
  }
};

// y's columns of a panel of rows. Some tokens at a time stay in L2 for all rows of the panel, which
// are taken eight by eight and stay in L1. copy(group, b, block): 8 rows of 32 columns to a block.
template <Isa isa, class Block, class Copy>
void multiply_strips(const cpu::Q8Product& p, int64_t first_row, cpu::Range groups, Block* panel,
                     const Copy& copy) {
  constexpr int64_t together = 64 / cpu::q8_tokens;
  using Tile = ByteTile<isa>;
  const int64_t blocks = q8_blocks(p.in), panel_end = first_row + cpu::q8_panel_rows(isa);
  const int64_t end_row = panel_end < p.rows ? panel_end : p.rows;
  for (int64_t row = first_row; row < end_row; row += q8_rows)
    for (int64_t b = 0; b < blocks; ++b)
      copy(row / q8_rows, b, panel[(row - first_row) / q8_rows * blocks + b]);
  for (int64_t some = groups.begin; some < groups.end; some += together)
    for (int64_t row = first_row; row < end_row; row += q8_rows) {
      const Block* w = panel + (row - first_row) / q8_rows * blocks;
      for (int64_t group = some; group < groups.end && group < some + together; ++group) {
        const int64_t token = group * Tile::tokens;
        const int8_t* x = p.x.value + token * blocks * q8_columns;
        const float* scale = p.x.scale + token * blocks;
        const cpu::HalfSums* total = p.x.total + token * blocks;
        Tile tile;
        for (int64_t b = 0; b < blocks; ++b)
          tile.accumulate(w[b], x + b * Tile::tokens * q8_columns, scale + b * Tile::tokens,
                          total + b * Tile::tokens);
        store_part(tile, {p.y.at(token) + row, p.y.stride}, {p.x.tokens - token, p.rows - row},
                   p.sum);
      }
    }
}

}  // namespace
}  // namespace deltasane::kernel
