// Quantized weights as tiles of bf16 numbers (tile_halves.h). For files compiled per instruction set.
#pragma once

#include "kernel/isa_bf16.h"
#include "kernel/matmul/q8_block.h"

namespace deltasane::kernel {
namespace {

// 8 rows by 32 columns of 8-bit numbers: (column / 4, row, column % 4).
using EightRows = int8_t[q8_columns / 4][q8_rows][4];

// Their f16 factors, as floats.
template <Isa isa>
[[gnu::always_inline]] inline void load_halves(const uint16_t (&from)[q8_rows],
                                               float (&to)[q8_rows]) {
  constexpr int lanes = lanes_of(isa) == 4 ? 4 : 8;
  for (int r = 0; r < q8_rows; r += lanes)
    Simd<lanes>::store(to + r, load_f16<isa, lanes>(from + r));
}

// 16 rows of 8-bit numbers as a tile of W: scale * number - minimum, rounded. There are `scales`
// scales per row, each of the next 32 / scales columns. The product is exact in float, as are those
// of a scale's own factors, so this is the weight that Weights::at gives, rounded once.
template <Isa isa, int scales, bool minimum>
struct TileRows {
  using V = Simd<16>;
  V::Vec factor[scales + minimum];

  // Numbers of two times 8 rows. By a shuffle: memory would have to forward two stores to one load.
  template <class Wide, class Number>
  [[gnu::always_inline]] static inline Wide joined(const Number* first, const Number* second) {
    typedef std::remove_cvref_t<decltype(Wide{}[0])> Eight
        __attribute__((vector_size(32), aligned(4), may_alias));
    return __builtin_shufflevector(*reinterpret_cast<const Eight*>(first),
                                   *reinterpret_cast<const Eight*>(second), 0, 1, 2, 3, 4, 5, 6, 7,
                                   8, 9, 10, 11, 12, 13, 14, 15);
  }

  [[gnu::always_inline]] inline void store_tile(const EightRows& first, const EightRows& second,
                                                uint16_t* to) const {
#pragma GCC unroll 8
    for (int c = 0; c < q8_columns / 4; ++c, to += 2 * line) {
      const V::Int four = joined<V::Int>(first[c][0], second[c][0]);
      const int which = c * scales * 4 / q8_columns;
      store(to, Bf16<isa>::in_pairs(weight<0>(four, which), weight<1>(four, which)));
      store(to + line, Bf16<isa>::in_pairs(weight<2>(four, which), weight<3>(four, which)));
    }
  }

 private:
  static constexpr int64_t line = 32;  // two inputs of 16 rows

  template <int k>
  [[gnu::always_inline]] inline V::Vec weight(V::Int four, int which) const {
    const V::Int number = (four << (24 - 8 * k)) >> 24;
    const V::Vec scaled = __builtin_convertvector(number, V::Vec) * factor[which];
    if constexpr (minimum) return scaled - factor[scales];
    return scaled;
  }
};

// 32 rows by `blocks` of 32 columns, of which `groups` of 8 rows exist, the others zero. read(group, b):
// an object with `value`, EightRows, and `factor`, floats for each of 8 rows.
template <Isa isa, int scales, bool minimum, class Read>
void pack_quantized_rows(int64_t groups, int64_t blocks, const Read& read, uint16_t* to) {
  using Rows = TileRows<isa, scales, minimum>;
  constexpr int64_t tile = 16 * q8_columns;
  const float none[q8_rows] = {};
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t group = 0; group < 4; group += 2, to += tile) {
      if (group >= groups) {
        __builtin_memset(to, 0, tile * sizeof *to);
        continue;
      }
      const bool both = group + 1 < groups;
      const auto first = read(group, b), second = read(both ? group + 1 : group, b);
      Rows rows;
#pragma GCC unroll 2
      for (int f = 0; f < scales + minimum; ++f)
        rows.factor[f] = Rows::template joined<Simd<16>::Vec>(first.factor[f], both ? second.factor[f] : none);
      rows.store_tile(first.value, second.value, to);
    }
}

}  // namespace
}  // namespace deltasane::kernel
