// Weights of 16 bits or fewer times floats with tiles of bf16 numbers (isa_tile.h). For files compiled
// per instruction set.
//
// A float is split into the sum of two bf16 numbers, which leaves 2^-17 of it; an f16 weight is the
// sum of two, which leaves nothing; a bf16 weight is one. All products of the parts are added. With
// quantized weights, a float and a weight are one number each, which leaves 2^-9 of them.
#pragma once

#include <array>
#include <utility>

#include "kernel/isa_bf16.h"
#include "kernel/isa_tile.h"
#include "kernel/matmul/cpu/pack.h"
#include "kernel/matmul/cpu/partial_tile.h"

namespace deltasane::kernel {
namespace {

// 16 floats as sums of two bf16 numbers; what is not finite is in `high` alone.
template <Isa isa>
struct SplitFloats {
  using V = Simd<tile_rows>;
  using Word = Halves<tile_rows>::Word;
  using Short = Halves<tile_rows>::Short;

  // Of three, which leave nothing of a float but of the smallest ones.
  [[gnu::always_inline]] static inline void split(V::Vec x, uint16_t* high, uint16_t* low,
                                                  uint16_t* lowest) {
    split(x, high, low);
    const V::Vec rest = x - widened(high) - widened(low);
    const Word size = reinterpret_cast<Word>(x) & 0x7fffffffu;
    const Short last = Bf16<isa>::narrow(size < 0x7f800000u ? rest : V::splat(0.0f));
    __builtin_memcpy(lowest, &last, sizeof last);
  }
  [[gnu::always_inline]] static inline void split(V::Vec x, uint16_t* high, uint16_t* low) {
    if (!Bf16<isa>::stays_finite(x)) return split_any(x, high, low);
    const Short first = Bf16<isa>::narrow(x);
    const Word widened = __builtin_convertvector(first, Word) << 16;
    const Short rest = Bf16<isa>::narrow(x - reinterpret_cast<V::Vec>(widened));
    __builtin_memcpy(high, &first, sizeof first);
    __builtin_memcpy(low, &rest, sizeof rest);
  }

 private:
  [[gnu::always_inline]] static inline V::Vec widened(const uint16_t* numbers) {
    Short some;
    __builtin_memcpy(&some, numbers, sizeof some);
    return reinterpret_cast<V::Vec>(__builtin_convertvector(some, Word) << 16);
  }
  [[gnu::always_inline]] static inline Word nearest(Word bits) { return PlainBf16::nearest(bits); }
  [[gnu::always_inline]] static inline void store(uint16_t* to, Word upper) {
    const Short numbers = __builtin_convertvector(upper >> 16, Short);
    __builtin_memcpy(to, &numbers, sizeof numbers);
  }
  [[gnu::noinline]] static void split_any(V::Vec x, uint16_t* high, uint16_t* low) {
    const Word bits = reinterpret_cast<Word>(x), size = bits & 0x7fffffffu;
    const Word rounded = nearest(bits);
    // A finite number that would round to infinity becomes the number before it. The bits of a NaN
    // may be in its lower half only.
    const Word finite = (rounded & 0x7fffffffu) == 0x7f800000u ? rounded - 0x10000u : rounded;
    const Word other = size > 0x7f800000u ? bits | 0x400000u : bits;
    const Word first = size < 0x7f800000u ? finite : other & 0xffff0000u;
    const Word rest = reinterpret_cast<Word>(x - reinterpret_cast<V::Vec>(first));
    store(high, first);
    store(low, size < 0x7f800000u ? nearest(rest) : Word{});
  }
};

// The sums of a tile between one depth and the next, (token, row): whether it is the first and the last
// of them, which begin and end in y.
struct KeptSums {
  float* at;
  bool first, last;
  cpu::Sum how;
};

// 32 tokens by 32 rows. For every 32 inputs, x is (part, token, input), W (part, row / 16, input / 2,
// row % 16, input % 2).
template <Isa isa, WeightType type>
class HalfTiles {
 public:
  static_assert(cpu::tile_side == 2 * tile_rows);
  static constexpr int64_t tokens = cpu::tile_side, rows = cpu::tile_side, inputs = cpu::tile_side;
  static constexpr int64_t part = tokens * inputs;  // numbers, of x and of W
  static constexpr int64_t x_parts = is_quantized(type) ? 1 : type == WeightType::f32 ? 3 : 2;
  static constexpr int64_t w_parts = type == WeightType::f32 ? 3 : type == WeightType::f16 ? 2 : 1;
  using Stored = Element<is_quantized(type) ? WeightType::bf16 : type>;

  // Of `depth` inputs, up to 32 tokens, the others zero.
  static void pack_x(const float* x, int64_t stride, int64_t count, int64_t depth, uint16_t* to) {
    for (int64_t k = 0; k < depth; k += inputs, to += x_parts * part)
      for (int64_t t = 0; t < tokens; ++t) {
        float rest[inputs];
        const float* const line = whole_line(x + t * stride + k, t < count ? depth - k : 0, rest);
        if constexpr (x_parts == 1)
          kernel::store(to + t * inputs,
                        Bf16<isa>::in_turn(V::load(line), V::load(line + tile_rows)));
        else
          for (int64_t i = 0; i < inputs; i += tile_rows)
            split(V::load(line + i), to + t * inputs + i);
      }
  }

  // The same of rows of W, which are not quantized (tile_quantized.h has those).
  static void pack_w(const Stored* w, int64_t stride, int64_t count, int64_t depth, uint16_t* to) {
    for (int64_t k = 0; k < depth; k += inputs, to += w_parts * part)
      for (int64_t r = 0; r < rows; r += tile_rows) {
        uint16_t line[w_parts][tile_rows][inputs];
        for (int64_t i = 0; i < tile_rows; ++i) {
          Stored rest[inputs];
          put_parts(whole_line(w + (r + i) * stride + k, r + i < count ? depth - k : 0, rest), line,
                    i);
        }
        for (int64_t p = 0; p < w_parts; ++p) interleave(line[p], to + p * part + r * inputs);
      }
  }

  // From packed numbers; depth: whole 32 inputs.
  template <class Tiles>
  [[gnu::always_inline]] inline void multiply(Tiles& tiles, const uint16_t* x, const uint16_t* w,
                                              int64_t depth) {
    zero_sums(tiles);
    add_products(tiles, x, w, depth);
    store_sums(tiles, {sum_[0], rows});
    mend(x, w, depth);
  }

  // A software pipeline: begin() loads the operands of the first step. A step multiplies all four pairs of
  // the tiles that are loaded, and loads those operands of the next step that change, each right after the
  // last use of its tile.
  struct Operands {
    const uint16_t *x, *w;
  };
  enum class Change { x, w, both };
  template <class Tiles>
  [[gnu::always_inline]] static inline void begin(Tiles& tiles, Operands first) {
    load_x<0>(tiles, first.x), load_x<1>(tiles, first.x);
    load_w<0>(tiles, first.w), load_w<1>(tiles, first.w);
  }
  template <Change change, class Tiles>
  [[gnu::always_inline]] static inline void step(Tiles& tiles, Operands next) {
    constexpr bool both = change == Change::both;
    if constexpr (change == Change::w) {
      add<0, 0>(tiles), add<1, 0>(tiles), load_w<0>(tiles, next.w);
      add<0, 1>(tiles), add<1, 1>(tiles), load_w<1>(tiles, next.w);
    } else {
      add<0, 0>(tiles), add<0, 1>(tiles), load_x<0>(tiles, next.x), add<1, 0>(tiles);
      if constexpr (both) load_w<0>(tiles, next.w);
      add<1, 1>(tiles), load_x<1>(tiles, next.x);
      if constexpr (both) load_w<1>(tiles, next.w);
    }
  }

  // The products of one depth of some, with sums that the tiles load and store themselves: of one
  // part each, nothing is to mend. steps(): all of the steps of this depth.
  template <class Tiles, class Steps>
  [[gnu::always_inline]] static inline void multiply_part(Tiles& tiles, cpu::Strided<float> y,
                                                          Part exists, KeptSums sums,
                                                          const Steps& steps) {
    static_assert(x_parts == 1 && w_parts == 1);
    const bool adds_to_y = sums.first && sums.how == cpu::Sum::add;
    const bool is_part = (sums.last || adds_to_y) && (exists.tokens < tokens || exists.rows < rows);
    float copy[tokens * rows];
    const cpu::Strided<float> kept{sums.at, rows},
        whole = is_part ? cpu::Strided<float>{copy, rows} : y;
    if (is_part) copy_part<tokens, rows>(y, whole, exists);
    if (sums.first && !adds_to_y)
      zero_sums(tiles);
    else
      load_sums(tiles, sums.first ? whole : kept);
    steps();
    store_sums(tiles, sums.last ? whole : kept);
    if (is_part && sums.last) copy_part<tokens, rows>(whole, y, exists);
  }

  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; r += tile_rows) {
        float* const to = y.at(t) + r;
        const V::Vec sums = V::load(sum_[t] + r);
        V::store(to, how == cpu::Sum::add ? V::load(to) + sums : sums);
      }
  }

 private:
  using V = Simd<tile_rows>;

  // 32 numbers, those past the end zero, in `rest` unless all are there.
  template <class Number>
  [[gnu::always_inline]] static inline const Number* whole_line(const Number* from, int64_t left,
                                                                Number (&rest)[inputs]) {
    if (left >= inputs) return from;
    for (int64_t i = 0; i < inputs; ++i) rest[i] = i < left ? from[i] : Number{};
    return rest;
  }
  [[gnu::always_inline]] static inline void split(V::Vec x, uint16_t* to) {
    if constexpr (x_parts == 3)
      SplitFloats<isa>::split(x, to, to + part, to + 2 * part);
    else
      SplitFloats<isa>::split(x, to, to + part);
  }
  [[gnu::always_inline]] static inline void put_parts(const Stored* numbers,
                                                      uint16_t (&line)[w_parts][tile_rows][inputs],
                                                      int64_t i) {
    if constexpr (w_parts == 3) {
      for (int64_t k = 0; k < inputs; k += tile_rows)
        SplitFloats<isa>::split(V::load(numbers + k), line[0][i] + k, line[1][i] + k,
                                line[2][i] + k);
    } else if constexpr (w_parts == 2) {
      for (int64_t k = 0; k < inputs; k += tile_rows)
        SplitFloats<isa>::split(load_f16<isa, tile_rows>(numbers + k), line[0][i] + k,
                                line[1][i] + k);
    } else {
      __builtin_memcpy(line[0][i], numbers, sizeof line[0][i]);
    }
  }
  // Pairs of numbers, transposed: 4 rows of 4 pairs at a time.
  static void interleave(const uint16_t (&line)[tile_rows][inputs], uint16_t* to) {
    for (int64_t i = 0; i < tile_rows; i += 4)
      for (int64_t k = 0; k < inputs; k += 8) {
        Four m[4];
        for (int64_t j = 0; j < 4; ++j) __builtin_memcpy(&m[j], line[i + j] + k, sizeof m[j]);
        transpose(m);
        for (int64_t j = 0; j < 4; ++j)
          __builtin_memcpy(to + ((k / 2 + j) * tile_rows + i) * 2, &m[j], sizeof m[j]);
      }
  }

  // The parts that are multiplied, one after the other: neighbours share an operand. Of three parts
  // each, a rest of a rest is left out.
  struct Parts {
    int64_t x, w;
  };
  static constexpr auto order = [] {
    if constexpr (x_parts == 3)
      return std::to_array<Parts>({{2, 0}, {1, 0}, {0, 0}, {0, 2}, {0, 1}, {1, 1}});
    else if constexpr (w_parts == 2)
      return std::to_array<Parts>({{0, 0}, {1, 0}, {1, 1}, {0, 1}});
    else if constexpr (x_parts == 2)
      return std::to_array<Parts>({{0, 0}, {1, 0}});
    else
      return std::to_array<Parts>({{0, 0}});
  }();
  [[gnu::always_inline]] static inline Operands operands_of(Parts parts, Operands of) {
    return {of.x + parts.x * part, of.w + parts.w * part};
  }

  template <class Tiles>
  [[gnu::always_inline]] static inline void add_products(Tiles& tiles, const uint16_t* x,
                                                         const uint16_t* w, int64_t depth) {
    Operands now{x, w};
    begin(tiles, operands_of(order[0], now));
    for (int64_t k = inputs; k <= depth; k += inputs) {
      const Operands later = k < depth ? Operands{now.x + x_parts * part, now.w + w_parts * part}
                                       : now;  // at the end anything is loaded
      [&]<size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
        (add_parts<i>(tiles, now, later), ...);
      }
      (std::make_index_sequence<order.size()>{});
      now = later;
    }
  }
  template <size_t i, class Tiles>
  [[gnu::always_inline]] static inline void add_parts(Tiles& tiles, Operands now, Operands later) {
    constexpr bool last = i + 1 == order.size();
    constexpr Parts next = order[last ? 0 : i + 1];
    constexpr Change one = order[i].x == next.x ? Change::w : Change::x;
    step<last ? Change::both : one>(tiles, operands_of(next, last ? later : now));
  }
  template <class Tiles>
  [[gnu::always_inline]] static inline void zero_sums(Tiles& tiles) {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  template <class Tiles>
  [[gnu::always_inline]] static inline void load_sums(Tiles& tiles, cpu::Strided<float> from) {
    const int64_t stride = from.stride * int64_t(sizeof(float));
    tiles.template load<0>(from.first, stride);
    tiles.template load<1>(from.first + tile_rows, stride);
    tiles.template load<2>(from.at(tile_rows), stride);
    tiles.template load<3>(from.at(tile_rows) + tile_rows, stride);
  }
  template <class Tiles>
  [[gnu::always_inline]] static inline void store_sums(Tiles& tiles, cpu::Strided<float> to) {
    const int64_t stride = to.stride * int64_t(sizeof(float));
    tiles.template store<0>(to.first, stride);
    tiles.template store<1>(to.first + tile_rows, stride);
    tiles.template store<2>(to.at(tile_rows), stride);
    tiles.template store<3>(to.at(tile_rows) + tile_rows, stride);
  }
  // A half of a part. The operand that the first-level cache need not keep is streamed: x where each
  // is one part, else W, whose parts are loaded less often.
  static constexpr bool streams_x = x_parts == 1;
  template <int half, class Tiles>
  [[gnu::always_inline]] static inline void load_x(Tiles& tiles, const uint16_t* x) {
    load_half<x_tile, half, streams_x>(tiles, x);
  }
  template <int half, class Tiles>
  [[gnu::always_inline]] static inline void load_w(Tiles& tiles, const uint16_t* w) {
    load_half<w_tile, half, !streams_x>(tiles, w);
  }
  template <int first, int half, bool streams, class Tiles>
  [[gnu::always_inline]] static inline void load_half(Tiles& tiles, const uint16_t* from) {
    from += half * (part / 2);
    if constexpr (streams)
      tiles.template stream<first + half>(from, line_bytes);
    else
      tiles.template load<first + half>(from, line_bytes);
  }
  static constexpr int64_t line_bytes = 64;  // a token's 32 inputs, or two inputs of 16 rows
  template <int x_half, int w_half, class Tiles>
  [[gnu::always_inline]] static inline void add(Tiles& tiles) {
    tiles.template multiply_bf16<2 * x_half + w_half, x_tile + x_half, w_tile + w_half>();
  }

  // An infinite number times a part that is 0 is NaN: such sums are computed again, each for itself.
  void mend(const uint16_t* x, const uint16_t* w, int64_t depth) {
    V::Int wrong = {};
    for (const auto& sums : sum_)
      for (int64_t r = 0; r < rows; r += tile_rows) wrong |= V::load(sums + r) != V::load(sums + r);
    if (V::largest(wrong & 1) == 0) return;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r)
        if (sum_[t][r] != sum_[t][r]) sum_[t][r] = plain(x, w, depth, t, r);
  }
  static float plain(const uint16_t* x, const uint16_t* w, int64_t depth, int64_t t, int64_t r) {
    float sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t step = k / inputs, i = k % inputs;
      const uint16_t* const of_x = x + step * x_parts * part + t * inputs + i;
      const uint16_t* const of_w = w + step * w_parts * part + r / tile_rows * (part / 2) +
                                   (i / 2 * tile_rows + r % tile_rows) * 2 + i % 2;
      sum += joined<x_parts>(of_x) * joined<w_parts>(of_w);
    }
    return sum;
  }
  template <int64_t parts>
  static float joined(const uint16_t* first) {
    const auto number = [&](int64_t p) {
      return __builtin_bit_cast(float, uint32_t{first[p * part]} << 16);
    };
    if constexpr (parts == 3) return number(0) + number(1) + number(2);
    if constexpr (parts == 2) return number(0) + number(1);
    return number(0);
  }

  alignas(64) float sum_[tokens][rows];
};

}  // namespace
}  // namespace deltasane::kernel
