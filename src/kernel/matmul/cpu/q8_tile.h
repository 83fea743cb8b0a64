// Tiles of y from 8-bit weights and 8-bit tokens. For files compiled per instruction set.
//
// A source of weights has, for each block of 32 columns, `scales` scales per row, each of the next
// 32 / scales columns, and with `minimum` a number per row that is subtracted from each weight.
#pragma once

#include <utility>

#include "kernel/isa_dot.h"
#include "kernel/matmul/cpu/kernels.h"

namespace deltasane::kernel {
namespace {

// Weights in a panel: for each block of columns (column / 4, row, column % 4), and its factors for
// each row: scales, then the minimum if there is one.
template <Isa isa, int scale_count, bool has_minimum>
struct InPanel {
  using D = PanelDot<isa>;
  static constexpr int scales = scale_count, rows = int(cpu::q8_panel_rows(isa));
  static constexpr bool minimum = has_minimum;
  static_assert(rows == D::vectors * D::width);
  struct Block {
    int8_t value[q8_columns / 4][rows][4];
    float factor[scales + minimum][rows];
  };
  Block* block;

  [[gnu::always_inline]] inline void prefetch(int64_t) const {}  // it is in cache
  [[gnu::always_inline]] inline const int8_t* values(int64_t b, int c, int vector) const {
    return block[b].value[c][vector * D::width];
  }
  [[gnu::always_inline]] inline auto factors(int64_t b, int which, int vector) const {
    return Simd<D::width>::load(block[b].factor[which] + vector * D::width);
  }
};

// The rows of a source times T tokens.
template <class Source, int T>
struct Q8Tile {
  using D = typename Source::D;
  using V = Simd<D::width>;
  using Vec = typename V::Vec;
  static constexpr int vectors = D::vectors, rows = vectors * D::width;
  static constexpr int per_scale = q8_columns / 4 / Source::scales;

  Vec sum[T][vectors] = {};

  // x, scale, total: those of the block, token by token.
  [[gnu::always_inline]] inline void accumulate(const Source& w, int64_t b, const int8_t* x,
                                                const float* scale, const cpu::HalfSums* total) {
    w.prefetch(b);
    accumulate_scale<0>(w, b, x, scale, total);
    if constexpr (Source::scales == 2) accumulate_scale<1>(w, b, x, scale, total);
    if constexpr (Source::minimum) {
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) {
        const Vec minimums = w.factors(b, Source::scales, v);
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) sum[t][v] -= minimums * (scale[t] * float(total[t].all()));
      }
    }
  }
  template <int which>
  [[gnu::always_inline]] inline void accumulate_scale(const Source& w, int64_t b, const int8_t* x,
                                                      const float* scale,
                                                      const cpu::HalfSums* total) {
    typename D::Sums products[T][vectors];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const int32_t inputs = Source::scales == 2 ? total[t].half[which] : total[t].all();
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v)
        products[t][v] = D::start(D::offset ? -D::offset * inputs : 0);
    }
    [&]<int... c>(std::integer_sequence<int, c...>) __attribute__((always_inline)) {
      (accumulate_four<which * per_scale + c>(products, w, b, x), ...);
    }
    (std::make_integer_sequence<int, per_scale>{});
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      const Vec row_scales = w.factors(b, which, v);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sum[t][v] +=
            __builtin_convertvector(D::total(products[t][v]), Vec) * (row_scales * scale[t]);
    }
  }
  template <int c>
  [[gnu::always_inline]] static inline void accumulate_four(
      typename D::Sums (&products)[T][vectors], const Source& w, int64_t b, const int8_t* x) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const typename D::Inputs inputs(x + t * q8_columns);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v)
        D::template take<c>(products[t][v], w.values(b, c, v), inputs);
    }
  }

  // y: its tile; `count` of the rows exist.
  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, int64_t count,
                                           cpu::Sum how) const {
    float whole[T][rows];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) V::store(whole[t] + v * D::width, sum[t][v]);
    for (int t = 0; t < T; ++t)
      for (int64_t r = 0; r < count; ++r)
        y.at(t)[r] = how == cpu::Sum::add ? y.at(t)[r] + whole[t][r] : whole[t][r];
  }
};

template <class Source, int T>
void q8_tile(const Source& w, const cpu::Q8Product& p, int64_t row, int64_t group) {
  using Tile = Q8Tile<Source, T>;
  const int64_t blocks = q8_blocks(p.in), first = group * cpu::q8_tokens, left = p.rows - row;
  const int8_t* x = p.x.value + first * blocks * q8_columns;
  const float* scale = p.x.scale + first * blocks;
  const cpu::HalfSums* total = p.x.total + first * blocks;
  Tile tile;
  for (int64_t b = 0; b < blocks; ++b, x += T * q8_columns, scale += T, total += T)
    tile.accumulate(w, b, x, scale, total);
  tile.store({p.y.at(first) + row, p.y.stride}, left < Tile::rows ? left : Tile::rows, p.sum);
}

template <class Source>
void q8_tiles(const Source& w, const cpu::Q8Product& p, int64_t row, cpu::Range token_groups) {
  for (int64_t group = token_groups.begin; group < token_groups.end; ++group) {
    const int64_t left = p.x.tokens - group * cpu::q8_tokens;
    if (left >= 4) q8_tile<Source, 4>(w, p, row, group);
    if (left == 3) q8_tile<Source, 3>(w, p, row, group);
    if (left == 2) q8_tile<Source, 2>(w, p, row, group);
    if (left == 1) q8_tile<Source, 1>(w, p, row, group);
  }
}

}  // namespace
}  // namespace deltasane::kernel
