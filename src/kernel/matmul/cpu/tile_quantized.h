// Quantized weights as tiles of bf16 numbers (tile_halves.h). For files compiled per instruction set.
#pragma once

#include <utility>

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

// 32 rows of W as tiles, in units of 16 rows by 32 columns, each in `steps` steps between which tiles multiply.
//
// A Reader, made of QuantizedRows, has Reader::scales, Reader::minimum, and read(group, b, which), after which
// value(which), EightRows, and factor[which], floats for each of 8 rows, are those of a group of 8 rows in a
// block of 32 columns. prefetch(which, c) has a part of the same block of the rows to be packed after these.
template <Isa isa, class Reader>
class RowsPacker {
 public:
  static constexpr int steps = q8_columns / 4, most_units = 4;

  RowsPacker(const cpu::QuantizedRows& from, const cpu::QuantizedRows& later, uint16_t* to)
      : unit_{{from, later}, {from, later}, {from, later}, {from, later}},
        groups_(q8_groups(from.count)),
        left_(q8_blocks(from.depth) * units_of_block),
        to_(to) {}

  int64_t left() const { return left_; }  // units

  // One unit, or `units` with beside() before each of the steps.
  void pack() {
    pack<1>([] {});
  }
  template <class Beside>
  [[gnu::always_inline]] inline void pack(int64_t units, const Beside& beside) {
    for (; units > most_units && left_ > most_units; --units) pack();
    if (units > left_) units = left_;
    if (units > 2 && left_ >= 4)
      pack<4>(beside);
    else if (units > 1)
      pack<2>(beside);
    else if (units == 1)
      pack<1>(beside);
    else
      pack<0>(beside);
  }

 private:
  using Rows = TileRows<isa, Reader::scales, Reader::minimum>;
  static constexpr int64_t numbers = 16 * q8_columns, units_of_block = 2;

  class Unit {
   public:
    Unit(const cpu::QuantizedRows& from, const cpu::QuantizedRows& later) : reader_(from, later) {}

    // group: the first of the two that it has, if both exist. Where none does, it is zero.
    [[gnu::always_inline]] inline void begin(int64_t group, int64_t groups, int64_t block,
                                             uint16_t* to) {
      to_ = to;
      exists_ = group < groups;
      if (!exists_) return __builtin_memset(to, 0, numbers * sizeof *to), void();
      const bool both = group + 1 < groups;
      reader_.read(group, block, 0);
      reader_.read(both ? group + 1 : group, block, 1);
      const float none[q8_rows] = {};
      for (int f = 0; f < Reader::scales + Reader::minimum; ++f)
        rows_.factor[f] = Rows::template joined<Simd<16>::Vec>(reader_.factor[0][f],
                                                               both ? reader_.factor[1][f] : none);
    }
    template <int c>
    [[gnu::always_inline]] inline void step() const {
      if (!exists_) return;
      reader_.prefetch(c / 4, c % 4);
      rows_.store_columns(reader_.value(0), reader_.value(1), c, to_ + c * (numbers / steps));
    }

   private:
    Reader reader_;
    Rows rows_ = {};
    uint16_t* to_ = nullptr;
    bool exists_ = false;
  };

  template <int units, class Beside>
  [[gnu::always_inline]] inline void pack(const Beside& beside) {
    for (int u = 0; u < units; ++u) {
      unit_[u].begin(group_, groups_, block_, to_);
      to_ += numbers, --left_, group_ ^= 2;
      if (group_ == 0) ++block_;
    }
    [&]<int... c>(std::integer_sequence<int, c...>) __attribute__((always_inline)) {
      (step<units, c>(beside), ...);
    }
    (std::make_integer_sequence<int, steps>{});
  }
  template <int units, int c, class Beside>
  [[gnu::always_inline]] inline void step(const Beside& beside) {
    beside();
#pragma GCC unroll 4
    for (int u = 0; u < units; ++u) unit_[u].template step<c>();
  }

  Unit unit_[most_units];
  int64_t groups_, left_, group_ = 0, block_ = 0;
  uint16_t* to_;
};

template <Isa isa, class Reader>
void pack_all_rows(const cpu::QuantizedRows& from, uint16_t* to) {
  for (RowsPacker<isa, Reader> packer(from, from, to); packer.left() > 0;) packer.pack();
}

}  // namespace
}  // namespace deltasane::kernel
