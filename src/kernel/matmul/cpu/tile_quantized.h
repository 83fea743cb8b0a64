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

  // Four columns.
  [[gnu::always_inline]] inline void store_columns(const EightRows& first, const EightRows& second,
                                                   int c, uint16_t* to) const {
    const V::Int four = joined<V::Int>(first[c][0], second[c][0]);
    const int which = scales == 1 ? 0 : c / (q8_columns / 4 / scales);
    store(to, Bf16<isa>::in_pairs(weight<0>(four, which), weight<1>(four, which)));
    store(to + line, Bf16<isa>::in_pairs(weight<2>(four, which), weight<3>(four, which)));
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

// 32 rows of W as tiles, a few instructions at a time: tiles multiply meanwhile, unless these are many.
//
// A Reader, made of QuantizedRows, has Reader::scales, Reader::minimum, and read(group, b, which), after which
// value(which), EightRows, and factor[which], floats for each of 8 rows, are those of a group of 8 rows in a
// block of 32 columns. prefetch(which, c) has a part of the same block of the rows to be packed after these.
template <Isa isa, class Reader>
class RowsPacker {
 public:
  RowsPacker(const cpu::QuantizedRows& from, const cpu::QuantizedRows& later, uint16_t* to)
      : reader_(from, later),
        groups_(q8_groups(from.count)),
        left_(q8_blocks(from.depth) * tiles_of_block * steps_of_tile),
        to_(to) {}

  // Steps that are left: each has 16 rows by 4 columns.
  int64_t left() const { return left_; }

  [[gnu::always_inline]] inline void step() {
    if (c_ == 0) begin_tile();
    if (exists_) {
      reader_.prefetch(c_ / 4, c_ % 4);
      rows_.store_columns(reader_.value(0), reader_.value(1), c_, to_);
    } else {
      __builtin_memset(to_, 0, numbers * sizeof *to_);
    }
    to_ += numbers, --left_;
    if (++c_ < steps_of_tile) return;
    c_ = 0, group_ ^= 2;
    if (group_ == 0) ++block_;
  }

 private:
  using Rows = TileRows<isa, Reader::scales, Reader::minimum>;
  static constexpr int64_t numbers = 16 * 4, tiles_of_block = 2;
  static constexpr int steps_of_tile = q8_columns / 4;

  [[gnu::always_inline]] inline void begin_tile() {
    exists_ = group_ < groups_;
    if (!exists_) return;
    const bool both = group_ + 1 < groups_;
    reader_.read(group_, block_, 0);
    reader_.read(both ? group_ + 1 : group_, block_, 1);
    const float none[q8_rows] = {};
    for (int f = 0; f < Reader::scales + Reader::minimum; ++f)
      rows_.factor[f] = Rows::template joined<Simd<16>::Vec>(reader_.factor[0][f],
                                                             both ? reader_.factor[1][f] : none);
  }

  Reader reader_;
  Rows rows_ = {};
  int64_t groups_, left_, group_ = 0, block_ = 0;
  uint16_t* to_;
  int c_ = 0;
  bool exists_ = false;
};

template <Isa isa, class Reader>
void pack_all_rows(const cpu::QuantizedRows& from, uint16_t* to) {
  for (RowsPacker<isa, Reader> packer(from, from, to); packer.left() > 0;) packer.step();
}

}  // namespace
}  // namespace deltasane::kernel
