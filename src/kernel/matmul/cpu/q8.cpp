#include <cstring>
#include <utility>

#include "kernel/isa_dot.h"
#include "kernel/isa_half.h"
#include "kernel/matmul/cpu/matrix_q8.h"

namespace deltasane::kernel::cpu {
namespace {

// 32 numbers x to x * (127 / max|x|), rounded to nearest, ties away from zero. Twice the number is
// truncated to an integer first: no instruction set can fuse that, so all of them agree on every
// bit. sum: of the rounded numbers.
template <int lanes>
float quantize_32(const float* x, int8_t* to, int32_t& sum) {
  using V = Simd<lanes>;
  using Int = typename V::Int;
  Int size = {};
  for (int i = 0; i < q8_columns; i += lanes)
    size = V::larger(size, V::bits(V::load(x + i)) & 0x7fffffff);
  const float largest = __builtin_bit_cast(float, V::largest(size));  // NaN is above infinity
  if (!__builtin_isfinite(largest)) {  // the result gets it from the scale; no values to round
    for (int i = 0; i < q8_columns; ++i) to[i] = 1;
    sum = q8_columns;
    return largest;
  }
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  int32_t rounded[q8_columns];
  for (int i = 0; i < q8_columns; i += lanes) {
    const Int twice = __builtin_convertvector(V::load(x + i) * inverse * 2.0f, Int);
    const Int farther = twice + (twice >> 31 | 1);
    const Int half = (farther - (farther >> 31)) >> 1;
    std::memcpy(rounded + i, &half, sizeof half);
  }
  sum = 0;
  for (int i = 0; i < q8_columns; ++i) to[i] = int8_t(rounded[i]), sum += rounded[i];
  return largest / 127.0f;
}

// Weights in place, 8 rows.
template <Isa isa>
struct InPlace {
  using D = Dot<isa>;
  const Q8Block* block;

  // The next blocks, also across pages.
  [[gnu::always_inline]] inline void prefetch(int64_t b) const {
    const auto* soon = reinterpret_cast<const char*>(block + b) + 2048;
#pragma GCC unroll 5
    for (size_t i = 0; i < sizeof(Q8Block); i += 64) __builtin_prefetch(soon + i);
  }
  [[gnu::always_inline]] inline const int8_t* values(int64_t b, int c, int vector) const {
    return block[b].value[c][vector * D::width];
  }
  [[gnu::always_inline]] inline auto scales(int64_t b, int vector) const {
    return load_f16<isa, D::width>(block[b].scale + vector * D::width);
  }
};

// Weights in a panel: for each block of columns (column / 4, row, column % 4), and a scale per row.
template <Isa isa>
struct InPanel {
  using D = PanelDot<isa>;
  static constexpr int rows = int(q8_panel_rows(isa));
  static_assert(rows == D::vectors * D::width);
  struct Block {
    int8_t value[q8_columns / 4][rows][4];
    float scale[rows];
  };
  Block* block;

  [[gnu::always_inline]] inline void prefetch(int64_t) const {}  // it is in cache
  [[gnu::always_inline]] inline const int8_t* values(int64_t b, int c, int vector) const {
    return block[b].value[c][vector * D::width];
  }
  [[gnu::always_inline]] inline auto scales(int64_t b, int vector) const {
    return Simd<D::width>::load(block[b].scale + vector * D::width);
  }

  void copy(const Q8Product& p, int64_t first_row) const {
    const int64_t blocks = q8_blocks(p.in);
    for (int64_t b = 0; b < blocks; ++b)
      for (int r = 0; r < rows; r += q8_rows) {
        if (first_row + r >= p.rows) {
          for (auto& four : block[b].value) std::memset(four[r], 0, q8_rows * 4);
          for (int i = 0; i < q8_rows; ++i) block[b].scale[r + i] = 0;
          continue;
        }
        const Q8Block& from = p.w[(first_row + r) / q8_rows * blocks + b];
        for (int c = 0; c < q8_columns / 4; ++c)
          for (int i = 0; i < q8_rows; ++i)
            for (int k = 0; k < 4; ++k)
              block[b].value[c][r + i][k] = int8_t(from.value[c][i][k] + D::offset);
        for (int i = 0; i < q8_rows; i += 4)
          Simd<4>::store(block[b].scale + r + i, load_f16<isa, 4>(from.scale + i));
      }
  }
};

// The rows of a source times T tokens.
template <class Source, int T>
struct Q8Tile {
  using D = typename Source::D;
  using V = Simd<D::width>;
  using Vec = typename V::Vec;
  static constexpr int vectors = D::vectors, rows = vectors * D::width;

  Vec sum[T][vectors] = {};

  // x, scale, start: those of the block, token by token.
  [[gnu::always_inline]] inline void accumulate(const Source& w, int64_t b, const int8_t* x,
                                                const float* scale, const int32_t* start) {
    w.prefetch(b);
    typename D::Sums products[T][vectors];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) products[t][v] = D::start(D::offset ? start[t] : 0);
    [&]<int... c>(std::integer_sequence<int, c...>) __attribute__((always_inline)) {
      (accumulate_four<c>(products, w, b, x), ...);
    }
    (std::make_integer_sequence<int, q8_columns / 4>{});
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      const Vec row_scales = w.scales(b, v);
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
  [[gnu::always_inline]] inline void store(Strided<float> y, int64_t count, Sum how) const {
    float whole[T][rows];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) V::store(whole[t] + v * D::width, sum[t][v]);
    for (int t = 0; t < T; ++t)
      for (int64_t r = 0; r < count; ++r)
        y.at(t)[r] = how == Sum::add ? y.at(t)[r] + whole[t][r] : whole[t][r];
  }
};

template <class Source, int T>
void q8_tile(const Source& w, const Q8Product& p, int64_t row, int64_t group) {
  using Tile = Q8Tile<Source, T>;
  const int64_t blocks = q8_blocks(p.in), first = group * q8_tokens, left = p.rows - row;
  const int8_t* x = p.x.value + first * blocks * q8_columns;
  const float* scale = p.x.scale + first * blocks;
  const int32_t* start = p.x.start + first * blocks;
  Tile tile;
  for (int64_t b = 0; b < blocks; ++b, x += T * q8_columns, scale += T, start += T)
    tile.accumulate(w, b, x, scale, start);
  tile.store({p.y.at(first) + row, p.y.stride}, left < Tile::rows ? left : Tile::rows, p.sum);
}

template <class Source>
void q8_tiles(const Source& w, const Q8Product& p, int64_t row, Range token_groups) {
  for (int64_t group = token_groups.begin; group < token_groups.end; ++group) {
    const int64_t left = p.x.tokens - group * q8_tokens;
    if (left >= 4) q8_tile<Source, 4>(w, p, row, group);
    if (left == 3) q8_tile<Source, 3>(w, p, row, group);
    if (left == 2) q8_tile<Source, 2>(w, p, row, group);
    if (left == 1) q8_tile<Source, 1>(w, p, row, group);
  }
}

}  // namespace

template <Isa isa>
void quantize_tokens(Strided<const float> x, int64_t in, int64_t group, Q8Tokens to) {
  const int64_t blocks = q8_blocks(in), first = group * q8_tokens;
  const int64_t there = to.tokens - first < q8_tokens ? to.tokens - first : q8_tokens;
  const int64_t count = to.strips ? q8_tokens : there;
  for (int64_t t = 0; t < count; ++t)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t left = t < there ? in - b * q8_columns : 0;
      const int64_t block = first * blocks + b * count, at = block + t;
      float copy[q8_columns] = {};
      const float* from = copy;
      if (left >= q8_columns)
        from = x.at(first + t) + b * q8_columns;
      else if (left > 0)
        std::memcpy(copy, x.at(first + t) + b * q8_columns, size_t(left) * sizeof(float));
      int8_t rounded[q8_columns];
      int32_t sum;
      to.scale[at] = quantize_32<lanes_of(isa)>(from, rounded, sum);
      to.start[at] = -PanelDot<isa>::offset * sum;
      if (to.strips)
        for (int64_t i = 0; i < q8_columns; i += 8)
          std::memcpy(to.value + block * q8_columns + i * count + t * 8, rounded + i, 8);
      else
        std::memcpy(to.value + at * q8_columns, rounded, q8_columns);
    }
}

template <Isa isa>
void q8_few_tokens(const Q8Product& p, Range row_groups) {
  const int64_t token_groups = (p.x.tokens + q8_tokens - 1) / q8_tokens;
  for (int64_t group = row_groups.begin; group < row_groups.end; ++group)
    q8_tiles(InPlace<isa>{p.w + group * q8_blocks(p.in)}, p, group * q8_rows, {0, token_groups});
}

template <Isa isa>
void q8_many_tokens(const Q8Product& p, int64_t panel, Range token_groups, void* scratch) {
  const int64_t row = panel * q8_panel_rows(isa);
  if constexpr (has_matrices(isa)) {
    static_assert(sizeof(StripBlock) * (q8_panel_rows(isa) / q8_rows) ==
                  size_t(q8_panel_bytes(isa, q8_columns)));
    multiply_strips<isa>(p, row, token_groups, static_cast<StripBlock*>(scratch));
  } else {
    const InPanel<isa> w{static_cast<typename InPanel<isa>::Block*>(scratch)};
    static_assert(sizeof(*w.block) == size_t(q8_panel_bytes(isa, q8_columns)));
    w.copy(p, row);
    q8_tiles(w, p, row, token_groups);
  }
}

template void quantize_tokens<Isa::DELTASANE_ISA>(Strided<const float>, int64_t, int64_t, Q8Tokens);
template void q8_few_tokens<Isa::DELTASANE_ISA>(const Q8Product&, Range);
template void q8_many_tokens<Isa::DELTASANE_ISA>(const Q8Product&, int64_t, Range, void*);

}  // namespace deltasane::kernel::cpu
