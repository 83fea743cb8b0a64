// 8-bit weights times 8-bit tokens with tiles (isa_tile.h). For files compiled per instruction set.
#pragma once

#include "kernel/isa_tile.h"
#include "kernel/matmul/cpu/partial_tile.h"
#include "kernel/matmul/cpu/q8_tile.h"

namespace deltasane::kernel {
namespace {

// 16 tokens by 16 rows of a panel. A tile of integers is stored and scaled as vectors; while that is done, the
// next block is multiplied.
template <class Tiles, class Panel>
class ByteTiles {
 public:
  static constexpr int64_t tokens = tile_rows, rows = tile_rows;

  // Apart from the sums, which are to stay in registers.
  struct Integers {
    alignas(64) int32_t of[2][Panel::scales][tokens][rows];
  };

  // x, scale, total: those of the first block.
  ByteTiles(Tiles& tiles, Integers& integers, const Panel& w, int first_row, const int8_t* x,
            const float* scale, const cpu::HalfSums* total)
      : tiles_(tiles),
        integers_(integers),
        block_(w.block),
        first_row_(first_row),
        x_(x),
        scale_(scale),
        total_(total) {}

  [[gnu::always_inline]] inline void accumulate(int64_t blocks) {
    multiply<0>(0);
    int64_t b = 0;
    for (; b + 2 <= blocks; b += 2) {
      multiply<1>(b + 1);
      add<0>(b);
      if (b + 2 < blocks) multiply<0>(b + 2);
      add<1>(b + 1);
    }
    if (b < blocks) add<0>(b);
  }

  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t)
      V::store(y.at(t), how == cpu::Sum::add ? V::load(y.at(t)) + sum_[t] : sum_[t]);
  }

 private:
  using V = Simd<tile_rows>;
  static constexpr int per_scale = q8_columns / Panel::scales;

  // The integers of a block, for each of its scales.
  template <int half>
  [[gnu::always_inline]] inline void multiply(int64_t b) {
    multiply_scale<half, 0>(b);
    if constexpr (Panel::scales == 2) multiply_scale<half, 1>(b);
  }
  template <int half, int s>
  [[gnu::always_inline]] inline void multiply_scale(int64_t b) {
    constexpr int sums = 2 * half + s;
    tiles_.template zero<sums>();
    tiles_.template load<x_tile + half>(x_ + b * tokens * q8_columns + s * per_scale, q8_columns);
    tiles_.template load<w_tile + half>(block_[b].value[s * per_scale / 4][first_row_],
                                        Panel::rows * 4);
    tiles_.template multiply_bytes<sums, x_tile + half, w_tile + half>();
    tiles_.template store<sums>(integers_.of[half][s], rows * int64_t(sizeof(int32_t)));
  }

  template <int half>
  [[gnu::always_inline]] inline void add(int64_t b) {
    const float* const scale = scale_ + b * tokens;
#pragma GCC unroll 2
    for (int s = 0; s < Panel::scales; ++s) {
      const typename V::Vec row_scales = V::load(block_[b].factor[s] + first_row_);
#pragma GCC unroll 16
      for (int t = 0; t < tokens; ++t)
        sum_[t] += __builtin_convertvector(integers(half, s, t), typename V::Vec) *
                   (row_scales * scale[t]);
    }
    if constexpr (Panel::minimum) {
      const cpu::HalfSums* const total = total_ + b * tokens;
      const typename V::Vec minimums = V::load(block_[b].factor[Panel::scales] + first_row_);
#pragma GCC unroll 16
      for (int t = 0; t < tokens; ++t)
        sum_[t] -= minimums * (scale[t] * float(total[t].all()));
    }
  }
  [[gnu::always_inline]] inline typename V::Int integers(int half, int s, int t) const {
    typename V::Int numbers;
    __builtin_memcpy(&numbers, integers_.of[half][s][t], sizeof numbers);
    return numbers;
  }

  Tiles& tiles_;
  Integers& integers_;
  const typename Panel::Block* block_;
  int first_row_;
  const int8_t* x_;
  const float* scale_;
  const cpu::HalfSums* total_;
  typename V::Vec sum_[tokens] = {};
};

// y's columns of a panel of rows, for some groups of 16 tokens. Some tokens at a time stay in L2 for all rows
// of the panel, 16 of which stay in L1.
template <class Tiles, class Panel>
void multiply_byte_tiles(const Panel& w, const cpu::Q8Product& p, int64_t first_row,
                         cpu::Range groups) {
  using Tile = ByteTiles<Tiles, Panel>;
  constexpr int64_t together = 64 / Tile::tokens;
  const int64_t blocks = q8_blocks(p.in);
  Tiles tiles(q8_columns / Panel::scales);
  typename Tile::Integers integers;
  for (int64_t some = groups.begin; some < groups.end; some += together)
    for (int r = 0; r < Panel::rows && first_row + r < p.rows; r += tile_rows)
      for (int64_t group = some; group < groups.end && group < some + together; ++group) {
        const int64_t token = group * Tile::tokens;
        Tile tile(tiles, integers, w, r, p.x.value + token * blocks * q8_columns,
                  p.x.scale + token * blocks, p.x.total + token * blocks);
        tile.accumulate(blocks);
        store_part(tile, {p.y.at(token) + first_row + r, p.y.stride},
                   {p.x.tokens - token, p.rows - first_row - r}, p.sum);
      }
}

// A packed panel times the tokens of some groups, as the set does it.
template <Isa isa, class Panel>
void multiply_panel(const Panel& w, const cpu::Q8Product& p, int64_t row, cpu::Range groups) {
  if constexpr (has_tiles(isa))
    multiply_byte_tiles<HardwareTiles<isa>>(w, p, row, groups);
  else
    q8_tiles(w, p, row, groups);
}

}  // namespace
}  // namespace deltasane::kernel
