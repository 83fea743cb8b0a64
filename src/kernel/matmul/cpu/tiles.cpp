#include "kernel/matmul/cpu/matrix_tile.h"
#include "kernel/matmul/cpu/pack.h"
#include "kernel/matmul/cpu/partial_tile.h"
#include "kernel/matmul/cpu/tile_halves.h"

namespace deltasane::kernel::cpu {
namespace {

// M tokens by panel_rows, the sums in registers over a whole depth.
template <Isa isa, int M>
struct Tile {
  static constexpr int lanes = lanes_of(isa);
  static constexpr int64_t tokens = M, panel = panel_tokens(isa), rows = panel_rows(isa);
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  Vec sum[M][3] = {};

  [[gnu::always_inline]] inline void multiply(const float* x, const float* w, int64_t depth) {
    for (int64_t k = 0; k < depth; ++k, x += panel, w += rows) {
      const Vec w0 = V::load(w), w1 = V::load(w + lanes), w2 = V::load(w + 2 * lanes);
      if constexpr (lanes == 4) {  // multiply-adds by one element of a vector of x
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

  [[gnu::always_inline]] inline void store(Strided<float> y, Sum how) const {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        float* to = y.at(i) + j * lanes;
        V::store(to, how == Sum::add ? V::load(to) + sum[i][j] : sum[i][j]);
      }
  }
};

template <class Tile, class Number>
void tile(const Number* x, const Number* w, int64_t depth, Strided<float> y, Part part, Sum how) {
  Tile tile;
  tile.multiply(x, w, depth);
  store_part(tile, y, part, how);
}

// How a product is cut into panels of floats.
template <Isa isa, WeightType type, Layout layout>
struct FloatPanels {
  using Number = float;
  struct Tools {};  // what a whole block is multiplied with
  static constexpr int64_t tokens = panel_tokens(isa), rows = panel_rows(isa);
  static constexpr int64_t depth = tile_depth(isa);
  static constexpr int64_t numbers = 1, w_numbers = 1;  // for each number of x, of W
  static constexpr int64_t padded(int64_t inputs) { return inputs; }

  static void pack_x(const float* x, int64_t stride, int64_t token, int64_t k, int64_t count,
                     int64_t inputs, float* panel) {
    pack_from<isa, WeightType::f32, layout, int(tokens)>(x, stride, token, k, count, inputs, panel);
  }
  static void pack_w(const Element<type>* w, int64_t stride, int64_t row, int64_t k, int64_t count,
                     int64_t inputs, float* panel) {
    pack_from<isa, type, layout, int(rows)>(w, stride, row, k, count, inputs, panel);
  }
  static void multiply(Tools&, const float* x, const float* w, int64_t inputs, Strided<float> y,
                       Part part, Sum how) {
    if (part.tokens > 4)
      tile<Tile<isa, int(tokens)>>(x, w, inputs, y, part, how);
    else
      tile<Tile<isa, 4>>(x, w, inputs, y, part, how);
  }
};

// How a product is cut into strips for matrix instructions. The depth is small, since their sums
// are rounded more coarsely than floats.
template <Isa isa, WeightType type, Layout layout>
struct MatrixPanels {
  static_assert(layout == Layout::row_major);
  using Number = uint16_t;
  struct Tools {};
  static constexpr int64_t tokens = HalfTile<isa>::tokens, rows = HalfTile<isa>::rows;
  static constexpr int64_t depth = 256, numbers = 2, w_numbers = 1;
  static constexpr int64_t padded(int64_t inputs) { return rounded_up(inputs, 4); }
  static_assert(tokens == panel_tokens(isa) && depth <= tile_depth(isa));

  static void pack_x(const float* x, int64_t stride, int64_t token, int64_t k, int64_t count,
                     int64_t inputs, uint16_t* panel) {
    split_strips<isa>(x + token * stride + k, stride, count, inputs, panel);
  }
  static void pack_w(const uint16_t* w, int64_t stride, int64_t row, int64_t k, int64_t count,
                     int64_t inputs, uint16_t* panel) {
    pack_strips(w + row * stride + k, stride, count, inputs, panel);
  }
  static void multiply(Tools&, const uint16_t* x, const uint16_t* w, int64_t inputs,
                       Strided<float> y, Part part, Sum how) {
    tile<HalfTile<isa>>(x, w, inputs, y, part, how);
  }
};

// How a product is cut into tiles of bf16 numbers.
template <Isa isa, WeightType type, Layout layout>
struct TilePanels {
  static_assert(layout == Layout::row_major);
  using Number = uint16_t;
  using Tile = HalfTiles<isa, type>;
  struct Tools {
    HardwareTiles<isa> tiles;
  };
  static constexpr int64_t tokens = Tile::tokens, rows = Tile::rows;
  static constexpr int64_t depth = tile_depth(isa, type);
  static constexpr int64_t numbers = Tile::x_parts, w_numbers = Tile::w_parts;
  static constexpr int64_t padded(int64_t inputs) { return rounded_up(inputs, Tile::inputs); }
  static_assert(tokens == panel_tokens(isa, type) && block_rows(isa, type) % rows == 0);
  static_assert(numbers * sizeof(Number) <= sizeof(float) &&
                w_numbers * sizeof(Number) <= sizeof(float) && depth % Tile::inputs == 0);

  static void pack_x(const float* x, int64_t stride, int64_t token, int64_t k, int64_t count,
                     int64_t inputs, uint16_t* panel) {
    Tile::pack_x(x + token * stride + k, stride, count, inputs, panel);
  }
  static void pack_w(const Element<type>* w, int64_t stride, int64_t row, int64_t k, int64_t count,
                     int64_t inputs, uint16_t* panel) {
    Tile::pack_w(w + row * stride + k, stride, count, inputs, panel);
  }
  static void multiply(Tools& tools, const uint16_t* x, const uint16_t* w, int64_t inputs,
                       Strided<float> y, Part part, Sum how) {
    Tile tile;
    tile.multiply(tools.tiles, x, w, inputs);
    store_part(tile, y, part, how);
  }
};

enum class Panels { floats, matrices, tiles };
constexpr Panels panels_of(Isa isa, WeightType type) {
  if (in_tiles(isa, type)) return Panels::tiles;
  return in_matrices(isa, type) ? Panels::matrices : Panels::floats;
}
template <Isa isa, WeightType type, Layout layout, Panels panels = panels_of(isa, type)>
struct PanelsOf {
  using Type = FloatPanels<isa, type, layout>;
};
template <Isa isa, WeightType type, Layout layout>
struct PanelsOf<isa, type, layout, Panels::matrices> {
  using Type = MatrixPanels<isa, type, layout>;
};
template <Isa isa, WeightType type, Layout layout>
struct PanelsOf<isa, type, layout, Panels::tiles> {
  using Type = TilePanels<isa, type, layout>;
};

}  // namespace

template <Isa isa, WeightType type, Layout layout>
void pack_tokens(Strided<const float> x, int64_t tokens, int64_t in, int64_t panel, float* packed) {
  using P = typename PanelsOf<isa, type, layout>::Type;
  auto* const to = reinterpret_cast<typename P::Number*>(packed);
  const int64_t all = rounded_up(tokens, P::tokens), first = panel * P::tokens;
  for (int64_t k = 0; k < in; k += P::depth) {
    const int64_t depth = in - k < P::depth ? in - k : P::depth;
    P::pack_x(x.first, x.stride, 0, k, tokens - first, depth,
              to + (k * all + first * P::padded(depth)) * P::numbers);
  }
}

template <Isa isa, WeightType type, Layout layout>
void multiply_block(const Tiles& tiles, Range rows, Range panels, float* scratch) {
  using P = typename PanelsOf<isa, type, layout>::Type;
  using Number = typename P::Number;
  const auto* w = static_cast<const Element<type>*>(tiles.w);
  const auto* const packed = reinterpret_cast<const Number*>(tiles.packed);
  auto* const block = reinterpret_cast<Number*>(scratch);
  const int64_t all = rounded_up(tiles.tokens, P::tokens);
  typename P::Tools tools;
  for (int64_t k = 0; k < tiles.in; k += P::depth) {
    const int64_t depth = tiles.in - k < P::depth ? tiles.in - k : P::depth;
    const int64_t padded = P::padded(depth);
    for (int64_t row = rows.begin; row < rows.end; row += P::rows)
      P::pack_w(w, tiles.w_stride, row, k, tiles.rows - row, depth,
                block + (row - rows.begin) * padded * P::w_numbers);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t token = panel * P::tokens;
      const Number* x = packed + (k * all + token * padded) * P::numbers;
      for (int64_t row = rows.begin; row < rows.end; row += P::rows) {
        const Number* const some_w = block + (row - rows.begin) * padded * P::w_numbers;
        const Part part{tiles.tokens - token, tiles.rows - row};
        const Sum how = k == 0 ? tiles.sum : Sum::add;
        P::multiply(tools, x, some_w, padded, tiles.y_at(token, row), part, how);
      }
    }
  }
}

template <Isa isa, WeightType type>
void pack_small_rows(const void* w, int64_t row, int64_t count, int64_t in, uint16_t* to) {
  const auto* const first = static_cast<const Element<type>*>(w) + row * in;
  HalfTiles<isa, type>::pack_w(first, in, count, in, to);
}
template <Isa isa, WeightType type>
void pack_small_tokens(Strided<const float> x, int64_t count, int64_t in, uint16_t* to) {
  HalfTiles<isa, type>::pack_x(x.first, x.stride, count, in, to);
}
template <Isa isa, WeightType type>
void multiply_small(const Tiles& p, Range rows, int64_t token) {
  HardwareTiles<isa> tiles;
  HalfTiles<isa, type> tile;
  const int64_t padded = rounded_up(p.in, tile.inputs);
  for (int64_t row = rows.begin; row < rows.end; row += tile.rows) {
    const Strided<float> y = p.y_at(token, row);
    tile.multiply(tiles, reinterpret_cast<const uint16_t*>(p.packed),
                  static_cast<const uint16_t*>(p.w) + row * padded * tile.w_parts, padded);
    store_part(tile, y, {p.tokens - token, p.rows - row}, p.sum);
  }
}

// Small matrices, which only tiles have.
template <Isa isa, WeightType... types>
void instantiate_small() {
  if constexpr (has_tiles(isa)) {
    using PackRows = void (*)(const void*, int64_t, int64_t, int64_t, uint16_t*);
    using PackTokens = void (*)(Strided<const float>, int64_t, int64_t, uint16_t*);
    using Multiply = void (*)(const Tiles&, Range, int64_t);
    [[gnu::used]] static constexpr PackRows rows[] = {&pack_small_rows<isa, types>...};
    [[gnu::used]] static constexpr PackTokens tokens[] = {&pack_small_tokens<isa, types>...};
    [[gnu::used]] static constexpr Multiply multiply[] = {&multiply_small<isa, types>...};
  }
}
template void
instantiate_small<Isa::DELTASANE_ISA, WeightType::f32, WeightType::f16, WeightType::bf16>();

template void pack_tokens<Isa::DELTASANE_ISA, WeightType::f32, Layout::row_major>(
    Strided<const float>, int64_t, int64_t, int64_t, float*);
template void pack_tokens<Isa::DELTASANE_ISA, WeightType::f16, Layout::row_major>(
    Strided<const float>, int64_t, int64_t, int64_t, float*);
template void pack_tokens<Isa::DELTASANE_ISA, WeightType::bf16, Layout::row_major>(
    Strided<const float>, int64_t, int64_t, int64_t, float*);
template void pack_tokens<Isa::DELTASANE_ISA, WeightType::f32, Layout::column_major>(
    Strided<const float>, int64_t, int64_t, int64_t, float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f32, Layout::row_major>(const Tiles&,
                                                                                     Range, Range,
                                                                                     float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f16, Layout::row_major>(const Tiles&,
                                                                                     Range, Range,
                                                                                     float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::bf16, Layout::row_major>(const Tiles&,
                                                                                      Range, Range,
                                                                                      float*);
template void multiply_block<Isa::DELTASANE_ISA, WeightType::f32, Layout::column_major>(
    const Tiles&, Range, Range, float*);

// For quantized weights, whose panels only tiles have.
template <Isa isa, WeightType... types>
void instantiate_quantized() {
  if constexpr (has_tiles(isa)) {
    using Pack = void (*)(Strided<const float>, int64_t, int64_t, int64_t, float*);
    [[gnu::used]] static constexpr Pack pack[] = {&pack_tokens<isa, types, Layout::row_major>...};
  }
}
template void instantiate_quantized<Isa::DELTASANE_ISA, WeightType::q8, WeightType::q6_k,
                                    WeightType::q5_k, WeightType::q4_k, WeightType::q4>();

}  // namespace deltasane::kernel::cpu
