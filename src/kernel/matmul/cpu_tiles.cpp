#include "kernel/matmul/pack.h"

namespace deltasane::kernel::cpu {
namespace {

// M tokens by panel_rows, the sums in registers over a whole depth.
template <Isa isa, int M>
struct Tile {
  static constexpr int lanes = lanes_of(isa);
  static constexpr int64_t tokens = panel_tokens(isa), rows = panel_rows(isa);
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  Vec sum[M][3] = {};

  [[gnu::always_inline]] inline void multiply(const float* x, const float* w, int64_t depth) {
    for (int64_t k = 0; k < depth; ++k, x += tokens, w += rows) {
      const Vec w0 = V::load(w), w1 = V::load(w + lanes), w2 = V::load(w + 2 * lanes);
      if constexpr (lanes == 4) {  // a vector of x, of which multiply-adds take one element
#pragma GCC unroll 2
        for (int q = 0; q < M; q += 4) {
          const Vec four = V::load(x + q);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) add(q + i, w0, w1, w2, four[i]);
        }
      } else {
#pragma GCC unroll 8
        for (int i = 0; i < M; ++i) add(i, w0, w1, w2, x[i]);
      }
    }
  }
  [[gnu::always_inline]] inline void add(int i, Vec w0, Vec w1, Vec w2, float x) {
    sum[i][0] += w0 * x;
    sum[i][1] += w1 * x;
    sum[i][2] += w2 * x;
  }

  [[gnu::always_inline]] inline void store(Lines<float> y, Sum how) const {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        float* to = y.at(i) + j * lanes;
        V::store(to, how == Sum::add ? V::load(to) + sum[i][j] : sum[i][j]);
      }
  }
};

// A tile of y of which only a part is there.
struct Part {
  int64_t tokens, rows;
};

template <Isa isa, int M>
void tile(const float* x, const float* w, int64_t depth, Lines<float> y, Part part, Sum how) {
  Tile<isa, M> tile;
  tile.multiply(x, w, depth);
  if (part.tokens >= M && part.rows >= tile.rows) return tile.store(y, how);
  float whole[M * tile.rows];
  tile.store({whole, tile.rows}, Sum::start);
  for (int64_t i = 0; i < M && i < part.tokens; ++i)
    for (int64_t j = 0; j < part.rows && j < tile.rows; ++j) {
      float& to = y.at(i)[j];
      to = how == Sum::add ? to + whole[i * tile.rows + j] : whole[i * tile.rows + j];
    }
}

}  // namespace

template <Isa isa, Lie lie>
void pack_tokens(Lines<const float> x, int64_t tokens, int64_t in, int64_t panel, float* packed) {
  constexpr int64_t width = panel_tokens(isa);
  const int64_t all = rounded_up(tokens, width), first = panel * width;
  for (int64_t k = 0; k < in; k += tile_depth(isa)) {
    const int64_t depth = in - k < tile_depth(isa) ? in - k : tile_depth(isa);
    pack_from<isa, WeightType::f32, lie, int(width)>(x.first, x.step, first, k, tokens - first,
                                                     depth, packed + k * all + first * depth);
  }
}

template <Isa isa, WeightType type, Lie lie>
void multiply_block(const Tiles& tiles, int64_t first_row, Range panels, float* scratch) {
  constexpr int64_t tokens = panel_tokens(isa), rows = panel_rows(isa);
  const auto* w = static_cast<const Element<type>*>(tiles.w);
  const int64_t all = rounded_up(tiles.tokens, tokens);
  const int64_t end_row = first_row + block_rows < tiles.rows ? first_row + block_rows : tiles.rows;
  for (int64_t k = 0; k < tiles.in; k += tile_depth(isa)) {
    const int64_t depth = tiles.in - k < tile_depth(isa) ? tiles.in - k : tile_depth(isa);
    for (int64_t row = first_row; row < end_row; row += rows)
      pack_from<isa, type, lie, int(rows)>(w, tiles.w_step, row, k, tiles.rows - row, depth,
                                           scratch + (row - first_row) * depth);
    const Sum how = k == 0 ? tiles.sum : Sum::add;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t token = panel * tokens;
      const float* x = tiles.packed + k * all + token * depth;
      for (int64_t row = first_row; row < end_row; row += rows) {
        const float* turned = scratch + (row - first_row) * depth;
        const Lines<float> y{tiles.y.at(token) + row, tiles.y.step};
        const Part part{tiles.tokens - token, tiles.rows - row};
        if (part.tokens > 4)
          tile<isa, int(tokens)>(x, turned, depth, y, part, how);
        else
          tile<isa, 4>(x, turned, depth, y, part, how);
      }
    }
  }
}

template void pack_tokens<Isa::DELTASANE_ISA, Lie::rows>(Lines<const float>, int64_t, int64_t,
                                                         int64_t, float*);
template void pack_tokens<Isa::DELTASANE_ISA, Lie::columns>(Lines<const float>, int64_t, int64_t,
                                                            int64_t, float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f32, Lie::rows>(const Tiles&, int64_t,
                                                                             Range, float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f16, Lie::rows>(const Tiles&, int64_t,
                                                                             Range, float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::bf16, Lie::rows>(const Tiles&, int64_t,
                                                                              Range, float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f32, Lie::columns>(const Tiles&,
                                                                                int64_t, Range,
                                                                                float*);

}  // namespace deltasane::kernel::cpu
