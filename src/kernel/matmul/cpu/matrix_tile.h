// Tiles of y with the processor's matrix instructions, from strips: 8 bytes of each of 8 tokens or
// rows, interleaved. For files compiled per instruction set.
#pragma once

#include "kernel/isa_matrix.h"
#include "kernel/matmul/cpu/kernels.h"

namespace deltasane::kernel {
namespace {

inline constexpr int64_t strip_rows = 8;  // rows of a tile, four vectors of two

// Sums of T tokens by 8 rows, floats or integers.
template <Isa isa, class Number, int T>
struct MatrixSums {
  using M = Matrices<isa>;
  Number sum[T / 2][4];  // (pair of tokens, pair of rows)

  explicit MatrixSums(Number start) {
#pragma GCC unroll 4
    for (auto& rows : sum)
#pragma GCC unroll 4
      for (Number& one : rows) one = start;
  }

  // x: `strips` of T tokens, all for the same inputs. w: a strip of 8 rows, as vectors.
  template <int strips, class Element, class Vec>
  [[gnu::always_inline]] inline void accumulate(const Element* x, const Vec (&w)[4]) {
    constexpr int vector = 16 / sizeof(Element);
#pragma GCC unroll 4
    for (int p = 0; p < T / 2; ++p)
#pragma GCC unroll 2
      for (int s = 0; s < strips; ++s) {
        const Vec pair = M::load(x + (s * T / 2 + p) * vector);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) sum[p][q] = M::multiply(sum[p][q], pair, w[q]);
      }
  }

  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
    using V = Simd<4>;
#pragma GCC unroll 4
    for (int p = 0; p < T / 2; ++p)
#pragma GCC unroll 2
      for (int q = 0; q < 4; q += 2) {
        const V::Vec first = __builtin_shufflevector(sum[p][q], sum[p][q + 1], 0, 1, 4, 5);
        const V::Vec second = __builtin_shufflevector(sum[p][q], sum[p][q + 1], 2, 3, 6, 7);
        float *const to = y.at(2 * p) + 2 * q, *const next = y.at(2 * p + 1) + 2 * q;
        V::store(to, how == cpu::Sum::add ? V::load(to) + first : first);
        V::store(next, how == cpu::Sum::add ? V::load(next) + second : second);
      }
  }
};

// A strip of 8 rows as vectors.
template <Isa isa, class Element>
struct StripRows {
  static constexpr int vector = 16 / sizeof(Element);
  decltype(Matrices<isa>::load(static_cast<const Element*>(nullptr))) pair[4];
  explicit StripRows(const Element* w)
      : pair{Matrices<isa>::load(w), Matrices<isa>::load(w + vector),
             Matrices<isa>::load(w + 2 * vector), Matrices<isa>::load(w + 3 * vector)} {}
};

// bf16 weights times floats. A strip has four inputs; x has two strips for them, since a float is
// split into the sum of two bf16 numbers.
template <Isa isa>
struct HalfTile {
  static constexpr int64_t tokens = 8, rows = strip_rows, inputs = 4, strip = 8 * inputs;
  MatrixSums<isa, Vector<4>::Vec, int(tokens)> sums{Vector<4>::Vec{}};

  [[gnu::always_inline]] inline void multiply(const uint16_t* x, const uint16_t* w, int64_t depth) {
    for (int64_t k = 0; k < depth; k += inputs, x += 2 * strip, w += strip) {
      const StripRows<isa, uint16_t> eight(w);
      sums.template accumulate<2>(x, eight.pair);
    }
  }
  [[gnu::always_inline]] inline void store(cpu::Strided<float> y, cpu::Sum how) const {
    sums.store(y, how);
  }
};

// Up to 8 vectors of 16-bit numbers to strips, zero past the end.
inline void pack_strips(const uint16_t* from, int64_t stride, int64_t count, int64_t depth,
                        uint16_t* strips) {
  for (int64_t line = 0; line < 8; ++line) {
    uint16_t* to = strips + line * 4;
    int64_t k = 0;
    if (line < count) {
      const uint16_t* const numbers = from + line * stride;
      for (; k + 4 <= depth; k += 4, to += 32) __builtin_memcpy(to, numbers + k, 8);
      if (k < depth) {
        uint16_t rest[4] = {};
        __builtin_memcpy(rest, numbers + k, size_t(depth - k) * 2);
        __builtin_memcpy(to, rest, 8);
        k += 4, to += 32;
      }
    }
    for (; k < depth; k += 4, to += 32) __builtin_memset(to, 0, 8);
  }
}

// The same of floats, each split in two: a strip of the high parts, then one of the low parts.
template <Isa isa>
void split_strips(const float* from, int64_t stride, int64_t count, int64_t depth,
                  uint16_t* strips) {
  for (int64_t line = 0; line < 8; ++line) {
    uint16_t* to = strips + line * 4;
    for (int64_t k = 0; k < depth; k += 4, to += 64) {
      Simd<4>::Vec four = {};
      if (line < count)
        four = Simd<4>::load_some(from + line * stride + k, int(depth - k < 4 ? depth - k : 4));
      Matrices<isa>::split(four, to, to + 32);
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel
