// Products of small matrices with all sums in registers, for files compiled per instruction set.
#pragma once

#include <cstdint>
#include <utility>

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {
namespace {

// P by X vectors of sums: sum(p, x) += vector(d, x) * factor(p, d) for all d. vector(d, x) is at
// vectors + d * width + x * lanes. `interleaved` is called before every `interval` values of d.
template <Isa isa, int P, int X>
struct Sums {
  static constexpr int lanes = lanes_of(isa);
  // Four factors are loaded together, and multiply-adds take one element of them.
  static constexpr bool by_element = isa == Isa::neon;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  Vec sum[P][X] = {};

  [[gnu::always_inline]] inline void load(const float* from) {
#pragma GCC unroll 16
    for (int i = 0; i < P * X; ++i) sum[i / X][i % X] = V::load(from + i * lanes);
  }

  // factor(p, d) is at factors + p * step + d; depth and interval are multiples of 4.
  template <int width, int step, int depth, int interval, class Body>
  [[gnu::always_inline]] inline void add(const float* vectors, const float* factors,
                                         Body interleaved) {
    constexpr int some = interval < depth ? interval : depth;
    for (int begin = 0; begin < depth; begin += some) {
      interleaved();
      for (int i = 0; i < some; i += 4, vectors += 4 * width, factors += 4) {
        if constexpr (by_element) {
          add_four<width, step>(vectors, factors);
        } else {
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) add_one<step>(vectors + j * width, factors + j);
        }
      }
    }
  }

  // vector(d, x) is at vectors + d * width + x * lanes, factor(p, d) at factors + p + d * step.
  [[gnu::always_inline]] inline void add_columns(const float* vectors, int width,
                                                 const float* factors, int step, int64_t depth) {
    int64_t d = 0;
    for (; d + 4 <= depth; d += 4, vectors += 4 * width, factors += 4 * step) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) add_column(vectors + j * width, factors + j * step);
    }
    for (; d < depth; ++d, vectors += width, factors += step) add_column(vectors, factors);
  }

  [[gnu::always_inline]] inline void add_to(int p, const Vec (&v)[X], float factor) {
#pragma GCC unroll 4
    for (int x = 0; x < X; ++x) sum[p][x] += v[x] * factor;
  }

 private:
  [[gnu::always_inline]] static inline void load_vectors(const float* from, Vec (&v)[X]) {
#pragma GCC unroll 4
    for (int x = 0; x < X; ++x) v[x] = V::load(from + x * lanes);
  }
  template <int step>
  [[gnu::always_inline]] inline void add_one(const float* vectors, const float* factors) {
    Vec v[X];
    load_vectors(vectors, v);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) add_to(p, v, factors[p * step]);
  }
  template <int width, int step>
  [[gnu::always_inline]] inline void add_four(const float* vectors, const float* factors) {
    Vec v[4][X];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) load_vectors(vectors + i * width, v[i]);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      const Vec four = V::load(factors + p * step);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) add_to(p, v[i], four[i]);
    }
  }
  [[gnu::always_inline]] inline void add_column(const float* vectors, const float* factors) {
    if constexpr (!by_element) return add_one<1>(vectors, factors);
    Vec v[X];
    load_vectors(vectors, v);
#pragma GCC unroll 4
    for (int p = 0; p < P; p += 4) {
      const Vec four = V::load(factors + p);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) add_to(p + i, v, four[i]);
    }
  }
};

// Transposes blocks of lanes by lanes.
template <int lanes>
class Transpose {
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  // Swaps the lanes of one row whose number has the bit `distance` with those of the other row
  // whose number does not.
  template <int distance, int... lane>
  [[gnu::always_inline]] static inline void swap(Vec& upper, Vec& lower,
                                                 std::integer_sequence<int, lane...>) {
    const Vec u = upper, l = lower;
    upper = __builtin_shufflevector(u, l, (lane & distance ? lanes + lane - distance : lane)...);
    lower = __builtin_shufflevector(u, l, (lane & distance ? lanes + lane : lane + distance)...);
  }
  template <int distance>
  [[gnu::always_inline]] static inline void swap_all(Vec (&row)[lanes]) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if (!(i & distance))
        swap<distance>(row[i], row[i + distance], std::make_integer_sequence<int, lanes>{});
    if constexpr (2 * distance < lanes) swap_all<2 * distance>(row);
  }
  template <int distance>
  [[gnu::always_inline]] static inline void add_pairs(Vec (&row)[lanes]) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i += 2 * distance) {
      swap<distance>(row[i], row[i + distance], std::make_integer_sequence<int, lanes>{});
      row[i] += row[i + distance];
    }
    if constexpr (2 * distance < lanes) add_pairs<2 * distance>(row);
  }

 public:
  // to[j][i] = from[i][j] for i, j < lanes.
  [[gnu::always_inline]] static inline void block(const float* from, int64_t from_step, float* to,
                                                  int64_t to_step) {
    Vec row[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) row[i] = V::load(from + i * from_step);
    swap_all<1>(row);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) V::store(to + i * to_step, row[i]);
  }

  // In lane i the sum of from[i], for `lanes` rows of `lanes` numbers.
  [[gnu::always_inline]] static inline Vec sums_of_rows(const float* from) {
    Vec row[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) row[i] = V::load(from + i * lanes);
    add_pairs<1>(row);
    return row[0];
  }
};

}  // namespace
}  // namespace deltasane::kernel::cpu
