#include <cstring>

#include "kernel/isa_half.h"
#include "kernel/matmul/cpu/matrix_q8.h"
#include "kernel/matmul/cpu/q8_reader.h"
#include "kernel/matmul/cpu/q8_tile.h"
#include "kernel/matmul/cpu/rounded_block.h"

namespace deltasane::kernel::cpu {
namespace {

// Numbers x to x * inverse, rounded to nearest, ties away from zero. Twice the number is truncated to
// an integer first: no instruction set can fuse that, so all of them agree on every bit.
template <int lanes>
[[gnu::always_inline]] inline typename Simd<lanes>::Int rounded(const float* x, float inverse) {
  using Int = typename Simd<lanes>::Int;
  const Int twice = __builtin_convertvector(Simd<lanes>::load(x) * inverse * 2.0f, Int);
  const Int farther = twice + (twice >> 31 | 1);
  return (farther - (farther >> 31)) >> 1;
}

// Eight of them, by vectors of four: compilers narrow these in registers, and longer ones as arrays.
typedef int16_t Shorts __attribute__((vector_size(16)));
typedef int8_t Bytes __attribute__((vector_size(8)));
[[gnu::always_inline]] inline Shorts rounded_eight(const float* x, float inverse) {
  return __builtin_convertvector(
      __builtin_shufflevector(rounded<4>(x, inverse), rounded<4>(x + 4, inverse), 0, 1, 2, 3, 4, 5,
                              6, 7),
      Shorts);
}
[[gnu::always_inline]] inline void store_bytes(int8_t* to, Shorts x) {
  const Bytes narrow = __builtin_convertvector(x, Bytes);
  std::memcpy(to, &narrow, sizeof narrow);
}
[[gnu::always_inline]] inline int16_t sum_of(Shorts x) {
  x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
  return x[0];
}

// 32 numbers x to x * inverse, and the sums of both halves.
template <int lanes>
[[gnu::always_inline]] inline HalfSums round_32(const float* x, float inverse, int8_t* to) {
  HalfSums total;
  constexpr int half = q8_columns / 2;
  if constexpr (lanes == 4) {
    for (int h = 0; h < 2; ++h) {
      const Shorts low = rounded_eight(x + h * half, inverse);
      const Shorts high = rounded_eight(x + h * half + 8, inverse);
      store_bytes(to + h * half, low), store_bytes(to + h * half + 8, high);
      total.half[h] = sum_of(low + high);
    }
    return total;
  }
  int32_t numbers[q8_columns], sums[2] = {};
  for (int i = 0; i < q8_columns; i += lanes) {
    const auto some = rounded<lanes>(x + i, inverse);
    std::memcpy(numbers + i, &some, sizeof some);
  }
  for (int i = 0; i < q8_columns; ++i) to[i] = int8_t(numbers[i]);
  for (int i = 0; i < q8_columns; ++i) sums[i / half] += numbers[i];
  return {{int16_t(sums[0]), int16_t(sums[1])}};
}

// 32 numbers x to x * (127 / max|x|). total: of the rounded numbers.
template <int lanes>
float quantize_32(const float* x, int8_t* to, HalfSums& total) {
  using V = Simd<lanes>;
  typename V::Int size = {};
  for (int i = 0; i < q8_columns; i += lanes)
    size = V::larger(size, V::bits(V::load(x + i)) & 0x7fffffff);
  const float largest = __builtin_bit_cast(float, V::largest(size));  // NaN is above infinity
  if (!__builtin_isfinite(largest)) {  // the result gets it from the scale; no values to round
    for (int i = 0; i < q8_columns; ++i) to[i] = 1;
    total = {{q8_columns / 2, q8_columns / 2}};
    return largest;
  }
  total = round_32<lanes>(x, largest > 0 ? 127.0f / largest : 0.0f, to);
  return largest / 127.0f;
}

// Weights in place, 8 rows.
template <Isa isa>
struct InPlace {
  using D = Dot<isa>;
  static constexpr int scales = 1;
  static constexpr bool minimum = false;
  const Q8Block* block;

  // Later blocks, into L2: the hardware's prefetcher stays closer.
  [[gnu::always_inline]] inline void prefetch(int64_t b) const {
    const auto* soon = reinterpret_cast<const char*>(block + b) + 8192;
#pragma GCC unroll 5
    for (size_t i = 0; i < sizeof(Q8Block); i += 64) __builtin_prefetch(soon + i, 0, 2);
  }
  [[gnu::always_inline]] inline const int8_t* values(int64_t b, int c, int vector) const {
    return block[b].value[c][vector * D::width];
  }
  [[gnu::always_inline]] inline auto factors(int64_t b, int, int vector) const {
    return load_f16<isa, D::width>(block[b].scale + vector * D::width);
  }
};

// 8 rows into a panel of them.
template <Isa isa>
void copy_to_panel(const Q8Product& p, int64_t first_row, const InPanel<isa, 1, false>& to) {
  using Panel = InPanel<isa, 1, false>;
  const auto* const w = static_cast<const Q8Block*>(p.w);
  const int64_t blocks = q8_blocks(p.in);
  for (int64_t b = 0; b < blocks; ++b)
    for (int r = 0; r < Panel::rows; r += q8_rows) {
      auto& block = to.block[b];
      if (first_row + r >= p.rows) {
        for (auto& four : block.value) std::memset(four[r], 0, q8_rows * 4);
        for (int i = 0; i < q8_rows; ++i) block.factor[0][r + i] = 0;
        continue;
      }
      const Q8Block& from = w[(first_row + r) / q8_rows * blocks + b];
      for (int c = 0; c < q8_columns / 4; ++c)
        for (int i = 0; i < q8_rows; ++i)
          for (int k = 0; k < 4; ++k)
            block.value[c][r + i][k] = int8_t(from.value[c][i][k] + Panel::D::offset);
      for (int i = 0; i < q8_rows; i += 4)
        Simd<4>::store(block.factor[0] + r + i, load_f16<isa, 4>(from.scale + i));
    }
}

}  // namespace

template <Isa isa>
void quantize_tokens(Strided<const float> x, int64_t in, int64_t group, Q8Tokens to) {
  const int64_t blocks = q8_blocks(in), first = group * q8_tokens;
  const int64_t there = to.tokens - first < q8_tokens ? to.tokens - first : q8_tokens;
  const int64_t count = to.layout == Q8Layout::rows ? there : q8_tokens;
  for (int64_t t = 0; t < count; ++t)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t left = t < there ? in - b * q8_columns : 0;
      const int64_t block = first * blocks + b * count, at = block + t;
      float copy[q8_columns] = {};
      const float* from = copy;
      if (left >= q8_columns)
        from = x.at(t) + b * q8_columns;
      else if (left > 0)
        std::memcpy(copy, x.at(t) + b * q8_columns, size_t(left) * sizeof(float));
      int8_t rounded[q8_columns];
      to.scale[at] = quantize_32<lanes_of(isa)>(from, rounded, to.total[at]);
      if (to.layout == Q8Layout::strips)
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
    q8_tiles(InPlace<isa>{static_cast<const Q8Block*>(p.w) + group * q8_blocks(p.in)}, p,
             group * q8_rows, {0, token_groups});
}

template <Isa isa>
void q8_many_tokens(const Q8Product& p, int64_t panel, Range token_groups, void* scratch) {
  const int64_t row = panel * q8_panel_rows(isa);
  if constexpr (has_matrices(isa)) {
    using Block = StripBlock<1, false>;
    static_assert(sizeof(Block) * (q8_panel_rows(isa) / q8_rows) ==
                  size_t(q8_panel_bytes(isa, q8_columns, 1)));
    const auto copy = [&](int64_t group, int64_t b, Block& to) {
      copy_strips<isa>(static_cast<const Q8Block*>(p.w)[group * q8_blocks(p.in) + b], to);
    };
    multiply_strips<isa>(p, row, token_groups, static_cast<Block*>(scratch), copy);
  } else {
    using Panel = InPanel<isa, 1, false>;
    const Panel w{static_cast<typename Panel::Block*>(scratch)};
    static_assert(sizeof(*w.block) == size_t(q8_panel_bytes(isa, q8_columns, 1)));
    copy_to_panel<isa>(p, row, w);
    q8_tiles(w, p, row, token_groups);
  }
}

template <Isa isa, WeightType type>
void pack_quantized(const QuantizedRows& from, uint16_t* to) {
  pack_all_rows<isa, Q8Reader<isa>>(from, to);
}
template <Isa isa, WeightType type>
void multiply_rounded(const Tiles& tiles, Range rows, Range panels, float* scratch) {
  if constexpr (has_tiles(isa))
    RoundedBlock<isa, Q8Reader<isa>>::multiply(tiles, rows, panels, scratch);
}

template void multiply_rounded<Isa::DELTASANE_ISA, WeightType::q8>(const Tiles&, Range, Range,
                                                                   float*);
template void pack_quantized<Isa::DELTASANE_ISA, WeightType::q8>(const QuantizedRows&, uint16_t*);
template void quantize_tokens<Isa::DELTASANE_ISA>(Strided<const float>, int64_t, int64_t, Q8Tokens);
template void q8_few_tokens<Isa::DELTASANE_ISA>(const Q8Product&, Range);
template void q8_many_tokens<Isa::DELTASANE_ISA>(const Q8Product&, int64_t, Range, void*);

}  // namespace deltasane::kernel::cpu
