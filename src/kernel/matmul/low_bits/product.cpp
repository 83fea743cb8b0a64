#include <cstring>

#include "kernel/isa_half.h"
#include "kernel/matmul/cpu/matrix_q8.h"
#include "kernel/matmul/cpu/q8_tile.h"
#include "kernel/matmul/cpu/rounded_block.h"
#include "kernel/matmul/low_bits/block.h"

namespace deltasane::kernel::cpu {
namespace {

constexpr bool is_affine(WeightType type) {
  return type == WeightType::q4_k || type == WeightType::q5_k;
}

// ---- few tokens: blocks of 8 rows where they lie

// Calls take<c>(numbers) for the 8 times 4 columns of `width` rows from `row`.
template <class D, class Take>
struct Unpack {
  using Bytes = typename D::Bytes;
  const Take& take;
  int row;

  [[gnu::always_inline]] static inline Bytes load(const uint8_t* from) {
    Bytes bytes;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    return bytes;
  }

  template <int c>
  [[gnu::always_inline]] static inline Bytes fifth(const FourBits&, int) {
    return Bytes{};
  }
  template <int c>  // bit c to bit 4
  [[gnu::always_inline]] static inline Bytes fifth(const FiveBits& bits, int row) {
    const Bytes all = load(bits.fifth[row]);
    return (c < 4 ? all << (c < 4 ? 4 - c : 0) : all >> (c < 4 ? 0 : c - 4)) & 16;
  }
  template <int c, class Bits>
  [[gnu::always_inline]] inline void nibbles(const Bits& bits) const {
    const Bytes both = load(bits.nibble[c][row]);
    take.template operator()<c>((both & 15) | fifth<c>(bits, row));
    take.template operator()<c + 4>((both >> 4) | fifth<c + 4>(bits, row));
  }
  template <class Bits>
  [[gnu::always_inline]] inline void all(const Bits& bits) const {
    nibbles<0>(bits);
    nibbles<1>(bits);
    nibbles<2>(bits);
    nibbles<3>(bits);
  }

  template <int half>
  [[gnu::always_inline]] inline void six(const SixBits& bits) const {
    const Bytes a = load(bits.vector[half][0][row]), b = load(bits.vector[half][1][row]),
                c = load(bits.vector[half][2][row]);
    take.template operator()<4 * half>(a & 63);
    take.template operator()<4 * half + 1>(b & 63);
    take.template operator()<4 * half + 2>(c & 63);
    take.template operator()<4 * half + 3>(D::upper(a, b, c));
  }
  [[gnu::always_inline]] inline void all(const SixBits& bits) const {
    six<0>(bits);
    six<1>(bits);
  }
};

template <class D, class Bits, class Take>
[[gnu::always_inline]] inline void unpack_rows(const Bits& bits, int row, const Take& take) {
  Unpack<D, Take>{take, row}.all(bits);
}

// What comes 2 KiB later, also across pages, where the hardware prefetcher stops. A few lines at a
// time: as many as a block of 256 columns has would fill the queue of misses.
[[gnu::always_inline]] inline void prefetch_after(const void* part, size_t bytes) {
  const auto* soon = static_cast<const char*>(part) + 2048;
#pragma GCC unroll 4
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(soon + i);
}

// 8 rows times T tokens.
template <Isa isa, class Block, int T>
struct LowBitTile {
  using D = Dot<isa>;
  using V = Simd<D::width>;
  using Vec = typename V::Vec;
  using Int = typename V::Int;
  static constexpr int vectors = q8_rows / D::width;

  // One block's columns: products of 32 with each token, in two halves where scales are of 16.
  template <int halves>
  struct Products {
    typename D::Sums sum[halves][T][vectors];
  };
  struct Token {
    const int8_t* value;
    const float* scale;
    const HalfSums* total;
  };

  Vec sum[T][vectors] = {};
  Token tokens[T];
  int64_t stride;  // tokens from a block of 32 to the next

  // at: the block of 32 inputs.
  template <int halves, class Bits>
  [[gnu::always_inline]] inline Products<halves> multiply(const Bits& bits, int64_t at) const {
    prefetch_after(&bits, sizeof bits);
    Products<halves> products{};
    [&]<int... t>(std::integer_sequence<int, t...>) __attribute__((always_inline)) {
      const typename D::Inputs inputs[T] = {typename D::Inputs(x(t, at))...};
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        unpack_rows<D>(
            bits, v * D::width, [&]<int c>(typename D::Bytes w) __attribute__((always_inline)) {
              (D::template take<c>(products.sum[c * halves / 8][t][v], w, inputs[t]), ...);
            });
    }
    (std::make_integer_sequence<int, T>{});
    return products;
  }
  [[gnu::always_inline]] inline const int8_t* x(int t, int64_t at) const {
    return tokens[t].value + at * stride * q8_columns;
  }
  [[gnu::always_inline]] inline float scale(int t, int64_t at) const {
    return tokens[t].scale[at * stride];
  }
  [[gnu::always_inline]] inline HalfSums total(int t, int64_t at) const {
    return tokens[t].total[at * stride];
  }
  [[gnu::always_inline]] static inline Vec halves_of(const uint16_t* from, int v) {
    return load_f16<isa, D::width>(from + v * D::width);
  }

  // q is stored with 8 added.
  [[gnu::always_inline]] inline void accumulate(const Q4Block& block, int64_t at) {
    prefetch_after(&block, sizeof block - sizeof block.bits);
    const Products<1> products = multiply<1>(block.bits[0], at);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      const Vec d = halves_of(block.d, v);
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) {
        const Int whole = D::total(products.sum[0][t][v]) - 8 * total(t, at).all();
        sum[t][v] += __builtin_convertvector(whole, Vec) * (d * scale(t, at));
      }
    }
  }

  template <class Bits>
  [[gnu::always_inline]] inline void accumulate(const AffineBlock<Bits>& block, int64_t at) {
    prefetch_after(&block, sizeof block - sizeof block.bits);
    Vec scaled[T][vectors] = {}, minimums[T][vectors] = {};
    for (int sub = 0; sub < 8; ++sub, ++at) {
      const Products<1> products = multiply<1>(block.bits[sub], at);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const uint8_t* const both = block.scale[sub][0];
        const Int s = D::widen(both, v * D::width);
        const Vec m = __builtin_convertvector(D::widen(both, q8_rows + v * D::width), Vec);
#pragma GCC unroll 2
        for (int t = 0; t < T; ++t) {
          const Int whole = D::total(products.sum[0][t][v]) * s;
          scaled[t][v] += __builtin_convertvector(whole, Vec) * scale(t, at);
          minimums[t][v] += m * (scale(t, at) * float(total(t, at).all()));
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) {  // one product a sum: of two, a compiler may fuse either
        sum[t][v] += halves_of(block.d, v) * scaled[t][v];
        sum[t][v] -= halves_of(block.d_min, v) * minimums[t][v];
      }
  }

  // q is stored with 32 added.
  [[gnu::always_inline]] inline void accumulate(const Q6Block& block, int64_t at) {
    prefetch_after(&block, sizeof block - sizeof block.bits);
    Vec scaled[T][vectors] = {};
    for (int sub = 0; sub < 8; ++sub, ++at) {
      const Products<2> products = multiply<2>(block.bits[sub], at);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const Int first = D::widen(block.scale[2 * sub], v * D::width);
        const Int second = D::widen(block.scale[2 * sub], q8_rows + v * D::width);
#pragma GCC unroll 2
        for (int t = 0; t < T; ++t) {
          const HalfSums inputs = total(t, at);
          const Int whole = (D::total(products.sum[0][t][v]) - 32 * inputs.half[0]) * first +
                            (D::total(products.sum[1][t][v]) - 32 * inputs.half[1]) * second;
          scaled[t][v] += __builtin_convertvector(whole, Vec) * scale(t, at);
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) sum[t][v] += halves_of(block.d, v) * scaled[t][v];
  }

  [[gnu::always_inline]] inline void store(Strided<float> y, int64_t count, Sum how) const {
    float whole[T][q8_rows];
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) V::store(whole[t] + v * D::width, sum[t][v]);
    for (int t = 0; t < T; ++t)
      for (int64_t r = 0; r < count; ++r)
        y.at(t)[r] = how == Sum::add ? y.at(t)[r] + whole[t][r] : whole[t][r];
  }
};

// Tokens [token, token + T) of one group.
template <Isa isa, class Block, int T>
void low_bit_tile(const Block* w, const Q8Product& p, int64_t row, int64_t token) {
  const int64_t blocks = q8_blocks(p.in), group = token / q8_tokens * q8_tokens;
  const int64_t left = p.rows - row, count = p.x.tokens - group;
  LowBitTile<isa, Block, T> tile;
  tile.stride = count < q8_tokens ? count : q8_tokens;
  for (int t = 0; t < T; ++t) {
    const int64_t first = group * blocks + (token - group) + t;
    tile.tokens[t] = {p.x.value + first * q8_columns, p.x.scale + first, p.x.total + first};
  }
  for (int64_t b = 0; b < p.in / Block::columns; ++b)
    tile.accumulate(w[b], b * (Block::columns / q8_columns));
  tile.store({p.y.at(token) + row, p.y.stride}, left < q8_rows ? left : q8_rows, p.sum);
}

// ---- many tokens: 32 columns of 8 rows as bytes, with their factors (q8_tile.h)

struct Unpacked {
  EightRows value;
  float factor[2][q8_rows];
};

// q, less what was added to it where that is the same for all.
template <Isa isa, int less, class Bits>
void unpack_values(const Bits& bits, Unpacked& to) {
  using D = Dot<isa>;
  for (int row = 0; row < q8_rows; row += D::width)
    unpack_rows<D>(
        bits, row, [&]<int c>(typename D::Bytes w) __attribute__((always_inline)) {
          w -= uint8_t(less);
          __builtin_memcpy(to.value[c][row], &w, sizeof w);
        });
}

template <Isa isa>
void unpack(const Q4Block& block, int, Unpacked& to) {
  unpack_values<isa, 8>(block.bits[0], to);
  load_halves<isa>(block.d, to.factor[0]);
}
template <Isa isa, class Bits>
void unpack(const AffineBlock<Bits>& block, int sub, Unpacked& to) {
  unpack_values<isa, 0>(block.bits[sub], to);
  load_halves<isa>(block.d, to.factor[0]);
  load_halves<isa>(block.d_min, to.factor[1]);
  for (int r = 0; r < q8_rows; ++r) to.factor[0][r] *= float(block.scale[sub][0][r]);
  for (int r = 0; r < q8_rows; ++r) to.factor[1][r] *= float(block.scale[sub][1][r]);
}
template <Isa isa>
void unpack(const Q6Block& block, int sub, Unpacked& to) {
  unpack_values<isa, 32>(block.bits[sub], to);
  load_halves<isa>(block.d, to.factor[0]);
  for (int r = 0; r < q8_rows; ++r) {
    const float d = to.factor[0][r];
    to.factor[0][r] = d * float(block.scale[2 * sub][r]);
    to.factor[1][r] = d * float(block.scale[2 * sub + 1][r]);
  }
}

template <Isa isa, WeightType type>
void unpack_at(const void* w, int64_t in, int64_t group, int64_t b, Unpacked& to) {
  using Block = BlockOf<type>;
  constexpr int64_t subs = Block::columns / q8_columns;
  const Block& block = static_cast<const Block*>(w)[group * (in / Block::columns) + b / subs];
  unpack<isa>(block, int(b % subs), to);
}

constexpr int scales_of(WeightType type) { return type == WeightType::q6_k ? 2 : 1; }

// Rows as tiles of bf16 numbers (tile_quantized.h).
template <Isa isa, WeightType type>
class LowBitReader {
 public:
  static constexpr int scales = scales_of(type);
  static constexpr bool minimum = is_affine(type);
  using Factors = float[2][q8_rows];
  Factors factor[2];

  LowBitReader(const QuantizedRows& from, const QuantizedRows& later)
      : from_(from), later_(address(later, 0, 0) - address(from, 0, 0)) {}
  void read(int64_t group, int64_t b, int which) {
    unpack_at<isa, type>(from_.w, from_.in, from_.row / q8_rows + group,
                         from_.column / q8_columns + b, rows_[which]);
    std::memcpy(factor[which], rows_[which].factor, sizeof(Factors));
    at_[which] = address(from_, group, b);
  }
  const EightRows& value(int which) const { return rows_[which].value; }
  void prefetch(int which, int c) const {
    if (c * 64 < bytes) __builtin_prefetch(at_[which] + later_ + c * 64, 0, 2);
  }

 private:
  using Block = BlockOf<type>;
  static constexpr int64_t subs = Block::columns / q8_columns;
  static constexpr int64_t bytes = sizeof(Block) / subs;  // for 32 columns
  static const char* address(const QuantizedRows& rows, int64_t group, int64_t b) {
    const int64_t column = rows.column / q8_columns + b, of_row = rows.in / Block::columns;
    const auto* const block =
        static_cast<const Block*>(rows.w) + (rows.row / q8_rows + group) * of_row + column / subs;
    return reinterpret_cast<const char*>(block) + column % subs * bytes;
  }

  QuantizedRows from_;
  int64_t later_;
  const char* at_[2] = {};
  Unpacked rows_[2];
};

}  // namespace

template <Isa isa, WeightType type>
void low_bit_few_tokens(const Q8Product& p, Range row_groups) {
  using Block = BlockOf<type>;
  for (int64_t group = row_groups.begin; group < row_groups.end; ++group) {
    const Block* const w = static_cast<const Block*>(p.w) + group * (p.in / Block::columns);
    int64_t token = 0;
    for (; token + 1 < p.x.tokens; token += 2)
      low_bit_tile<isa, Block, 2>(w, p, group * q8_rows, token);
    if (token < p.x.tokens) low_bit_tile<isa, Block, 1>(w, p, group * q8_rows, token);
  }
}

template <Isa isa, WeightType type>
void low_bit_many_tokens(const Q8Product& p, int64_t panel, Range token_groups, void* scratch) {
  constexpr int scales = scales_of(type);
  constexpr bool minimum = is_affine(type);
  static_assert(scales + minimum == low_bit_factors(type));
  const int64_t row = panel * q8_panel_rows(isa);
  if constexpr (has_matrices(isa)) {
    using Block = StripBlock<scales, minimum>;
    static_assert(sizeof(Block) * (q8_panel_rows(isa) / q8_rows) ==
                  size_t(q8_panel_bytes(isa, q8_columns, scales + minimum)));
    const auto copy = [&](int64_t group, int64_t b, Block& to) {
      Unpacked from;
      unpack_at<isa, type>(p.w, p.in, group, b, from);
      copy_strip_values(from.value, to);
      for (int f = 0; f < scales + minimum; ++f)
        for (int r = 0; r < q8_rows; r += 4)
          put_factors(to.factor[f], r, Simd<4>::load(from.factor[f] + r));
    };
    multiply_strips<isa>(p, row, token_groups, static_cast<Block*>(scratch), copy);
  } else {
    using Panel = InPanel<isa, scales, minimum>;
    const Panel w{static_cast<typename Panel::Block*>(scratch)};
    static_assert(sizeof(*w.block) == size_t(q8_panel_bytes(isa, q8_columns, scales + minimum)));
    for (int64_t b = 0; b < q8_blocks(p.in); ++b)
      for (int r = 0; r < Panel::rows; r += q8_rows) {
        Unpacked from = {};
        if (row + r < p.rows) unpack_at<isa, type>(p.w, p.in, (row + r) / q8_rows, b, from);
        auto& to = w.block[b];
        for (int c = 0; c < q8_columns / 4; ++c)
          for (int i = 0; i < q8_rows; ++i)
            for (int k = 0; k < 4; ++k)
              to.value[c][r + i][k] = int8_t(from.value[c][i][k] + Panel::D::offset);
        for (int f = 0; f < scales + minimum; ++f)
          std::memcpy(to.factor[f] + r, from.factor[f], sizeof from.factor[f]);
      }
    q8_tiles(w, p, row, token_groups);
  }
}

template <Isa isa, WeightType type>
void pack_quantized(const QuantizedRows& from, uint16_t* to) {
  pack_all_rows<isa, LowBitReader<isa, type>>(from, to);
}
template <Isa isa, WeightType type>
void multiply_rounded(const Tiles& tiles, Range rows, Range panels, float* scratch) {
  if constexpr (has_tiles(isa))
    RoundedBlock<isa, LowBitReader<isa, type>>::multiply(tiles, rows, panels, scratch);
}

template void multiply_rounded<Isa::DELTASANE_ISA, WeightType::q4>(const Tiles&, Range, Range,
                                                                   float*);
template void multiply_rounded<Isa::DELTASANE_ISA, WeightType::q4_k>(const Tiles&, Range, Range,
                                                                     float*);
template void multiply_rounded<Isa::DELTASANE_ISA, WeightType::q5_k>(const Tiles&, Range, Range,
                                                                     float*);
template void multiply_rounded<Isa::DELTASANE_ISA, WeightType::q6_k>(const Tiles&, Range, Range,
                                                                     float*);
template void pack_quantized<Isa::DELTASANE_ISA, WeightType::q4>(const QuantizedRows&, uint16_t*);
template void pack_quantized<Isa::DELTASANE_ISA, WeightType::q4_k>(const QuantizedRows&, uint16_t*);
template void pack_quantized<Isa::DELTASANE_ISA, WeightType::q5_k>(const QuantizedRows&, uint16_t*);
template void pack_quantized<Isa::DELTASANE_ISA, WeightType::q6_k>(const QuantizedRows&, uint16_t*);
template void low_bit_few_tokens<Isa::DELTASANE_ISA, WeightType::q4>(const Q8Product&, Range);
template void low_bit_few_tokens<Isa::DELTASANE_ISA, WeightType::q4_k>(const Q8Product&, Range);
template void low_bit_few_tokens<Isa::DELTASANE_ISA, WeightType::q5_k>(const Q8Product&, Range);
template void low_bit_few_tokens<Isa::DELTASANE_ISA, WeightType::q6_k>(const Q8Product&, Range);
template void low_bit_many_tokens<Isa::DELTASANE_ISA, WeightType::q4>(const Q8Product&, int64_t,
                                                                      Range, void*);
template void low_bit_many_tokens<Isa::DELTASANE_ISA, WeightType::q4_k>(const Q8Product&, int64_t,
                                                                        Range, void*);
template void low_bit_many_tokens<Isa::DELTASANE_ISA, WeightType::q5_k>(const Q8Product&, int64_t,
                                                                        Range, void*);
template void low_bit_many_tokens<Isa::DELTASANE_ISA, WeightType::q6_k>(const Q8Product&, int64_t,
                                                                        Range, void*);

}  // namespace deltasane::kernel::cpu
