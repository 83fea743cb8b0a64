#include <cstring>
#include <utility>

#include "kernel/isa_dot.h"
#include "kernel/isa_half.h"
#include "kernel/matmul/cpu.h"

namespace deltasane::kernel::cpu {
namespace {

// 32 numbers x to x * (127 / max|x|), rounded to nearest, halves away from zero. Twice the number
// is cut to an integer first: no instruction set can fuse that, so all of them agree on every bit.
template <int lanes>
float quantize_32(const float* x, int8_t* to) {
  using V = Simd<lanes>;
  using Int = typename V::Int;
  Int size = {};
  for (int i = 0; i < q8_columns; i += lanes)
    size = V::larger(size, V::bits(V::load(x + i)) & 0x7fffffff);
  const float largest = __builtin_bit_cast(float, V::largest(size));  // a NaN is larger than all
  if (!__builtin_isfinite(largest)) {  // seen in the result through the scale; no values to round
    for (int i = 0; i < q8_columns; ++i) to[i] = 1;
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
  for (int i = 0; i < q8_columns; ++i) to[i] = int8_t(rounded[i]);
  return largest / 127.0f;
}

// 8 rows times T tokens.
template <Isa isa, int T>
struct Q8Tile {
  using D = Dot<isa>;
  static constexpr int width = D::width, parts = q8_rows / width;
  using V = Simd<width>;
  using Vec = typename V::Vec;

  Vec sum[parts][T] = {};

  [[gnu::always_inline]] inline void take(const Q8Block& w, const int8_t* const (&x)[T],
                                          const float* const (&scale)[T], int64_t block) {
#pragma GCC unroll 2
    for (int p = 0; p < parts; ++p) {
      typename D::Sums products[T];
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        const typename D::Inputs inputs(x[t] + block * q8_columns);
        [&]<int... c>(std::integer_sequence<int, c...>) __attribute__((always_inline)) {
          (D::template take<c>(products[t], w.value[c][p * width], inputs), ...);
        }
        (std::make_integer_sequence<int, q8_columns / 4>{});
      }
      const Vec row_scales = load_f16<isa, width>(w.scale + p * width);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sum[p][t] +=
            __builtin_convertvector(D::total(products[t]), Vec) * (row_scales * scale[t][block]);
    }
  }

  [[gnu::always_inline]] inline void store(Lines<float> y, int64_t rows, Sum how) const {
    float whole[T][q8_rows];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
      for (int p = 0; p < parts; ++p) V::store(whole[t] + p * width, sum[p][t]);
    for (int t = 0; t < T; ++t)
      for (int64_t r = 0; r < rows; ++r)
        y.at(t)[r] = how == Sum::add ? y.at(t)[r] + whole[t][r] : whole[t][r];
  }
};

struct Place {
  int64_t row, rows, token;
};

template <Isa isa, int T>
void q8_tile(const Q8Block* w, int64_t blocks, Q8Tokens tokens, Place place, Lines<float> y,
             Sum how) {
  const int8_t* x[T];
  const float* scale[T];
  for (int t = 0; t < T; ++t) {
    x[t] = tokens.value + (place.token + t) * blocks * q8_columns;
    scale[t] = tokens.scale + (place.token + t) * blocks;
  }
  Q8Tile<isa, T> tile;
  for (int64_t b = 0; b < blocks; ++b) tile.take(w[b], x, scale, b);
  tile.store({y.at(place.token) + place.row, y.step}, place.rows, how);
}

}  // namespace

template <Isa isa>
void quantize_token(const float* x, int64_t in, int64_t token, Q8Tokens to) {
  const int64_t blocks = q8_blocks(in);
  int8_t* value = to.value + token * blocks * q8_columns;
  float* scale = to.scale + token * blocks;
  for (int64_t b = 0; b < blocks; ++b, x += q8_columns, value += q8_columns) {
    const int64_t left = in - b * q8_columns;
    if (left < q8_columns) {
      float copy[q8_columns] = {};
      std::memcpy(copy, x, size_t(left) * sizeof(float));
      scale[b] = quantize_32<lanes_of(isa)>(copy, value);
    } else {
      scale[b] = quantize_32<lanes_of(isa)>(x, value);
    }
  }
}

template <Isa isa>
void q8_multiply(const Q8Block* w, Range groups, int64_t rows, int64_t in, Q8Tokens x, Range tokens,
                 Lines<float> y, Sum sum) {
  const int64_t blocks = q8_blocks(in);
  for (int64_t t = tokens.begin; t < tokens.end; t += 4)
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const Q8Block* row_blocks = w + group * blocks;
      const int64_t row = group * q8_rows;
      const Place place{row, rows - row < q8_rows ? rows - row : q8_rows, t};
      const int64_t left = tokens.end - t;
      if (left >= 4) q8_tile<isa, 4>(row_blocks, blocks, x, place, y, sum);
      if (left == 3) q8_tile<isa, 3>(row_blocks, blocks, x, place, y, sum);
      if (left == 2) q8_tile<isa, 2>(row_blocks, blocks, x, place, y, sum);
      if (left == 1) q8_tile<isa, 1>(row_blocks, blocks, x, place, y, sum);
    }
}

template void quantize_token<Isa::DELTASANE_ISA>(const float*, int64_t, int64_t, Q8Tokens);
template void q8_multiply<Isa::DELTASANE_ISA>(const Q8Block*, Range, int64_t, int64_t, Q8Tokens,
                                              Range, Lines<float>, Sum);

}  // namespace deltasane::kernel::cpu
