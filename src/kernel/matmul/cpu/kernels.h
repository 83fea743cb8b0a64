// The CPU kernels of the matrix product. Plain declarations only: the .cpp files of this folder are
// compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernel/isa.h"
#include "kernel/matmul/q8_block.h"
#include "kernel/matmul/weight_type.h"

namespace deltasane::kernel::cpu {

struct Range {
  int64_t begin, end;
};

enum class Sum { start, add };  // y = ..., y += ...

// Vectors of contiguous elements, `stride` elements apart.
template <class T>
struct Strided {
  T* first;
  int64_t stride;
  T* at(int64_t i) const { return first + i * stride; }
};

// ---- few tokens: dot products of rows in place (dot.cpp)

constexpr int64_t rounded_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// x for dot products, interleaved: groups of dot_tokens(isa), in each (steps of two vectors, token,
// input), zero-padded to a multiple of dot_step(isa). So tokens that are a power of two apart in
// memory do not conflict in one cache set.
constexpr int64_t dot_step(Isa isa) { return 4 * lanes_of(isa); }
constexpr int64_t dot_tokens(Isa isa) { return registers_of(isa) == 32 ? 4 : 2; }
constexpr int64_t interleaved_floats(Isa isa, int64_t tokens, int64_t in) {
  return tokens * rounded_up(in, dot_step(isa));
}

template <Isa isa>
void interleave_tokens(Strided<const float> x, int64_t tokens, int64_t in, float* interleaved);

// y's columns `rows` for all tokens. w: rows of `in` elements.
template <Isa isa, WeightType type>
void dot_rows(const void* w, Range rows, int64_t in, const float* interleaved, int64_t tokens,
              Strided<float> y, Sum sum);

// One token and f16 weights, where the processor adds products of f16 numbers to floats: x as
// 2^-k (high + low), f16 numbers, 8 of each in turn.
constexpr bool has_half_products(Isa isa) { return isa == Isa::neon_mm; }
inline constexpr int64_t half_step = 16;  // inputs are a multiple of it

// 2^-k; 0 where a number of x is not finite. pairs: 2 in.
template <Isa isa>
float split_token(const float* x, int64_t in, uint16_t* pairs);
template <Isa isa>
void half_rows(const void* w, Range rows, int64_t in, const uint16_t* pairs, float scale, float* y,
               Sum sum);

// ---- many tokens: tiles of y from packed panels of x and W (tiles.cpp, pack.h)
//
// A panel of x holds panel_tokens(isa) tokens, a panel of W panel_rows(isa) rows; each is
// (in, token or row), as floats, zero past the end. Both are cut into depths of tile_depth
// inputs, so that one panel of each stays in L1.
//
// bf16 weights where has_matrices(isa): panels are strips of bf16 numbers (matrix_tile.h), two for
// each float of x, so they need the same memory.
//
// All weights but f32 where has_tiles(isa): panels are tiles of bf16 numbers (tile_halves.h). They have
// 32 tokens, and 32 inputs or more. A quantized weight is one such number, rounded, and so is a float of
// x beside it; otherwise there are two for a float of x and for an f16 weight.
constexpr bool in_matrices(Isa isa, WeightType type) {
  return has_matrices(isa) && type == WeightType::bf16;
}
constexpr bool in_tiles(Isa isa, WeightType type) {
  return has_tiles(isa) && type != WeightType::f32;
}
constexpr bool rounds_to_bf16(Isa isa, WeightType type) {
  return in_tiles(isa, type) && is_quantized(type);
}
// Tokens and rows of y, and inputs, that tiles multiply at a time.
inline constexpr int64_t tile_side = 32;
constexpr int64_t panel_tokens(Isa isa) { return registers_of(isa) == 32 ? 8 : 4; }
constexpr int64_t panel_tokens(Isa isa, WeightType type) {
  return in_tiles(isa, type) ? tile_side : panel_tokens(isa);
}
constexpr int64_t panel_rows(Isa isa) { return 3 * lanes_of(isa); }
constexpr int64_t tile_depth(Isa isa) { return lanes_of(isa) == 4 ? 512 : 256; }
// Quantized weights as tiles: a panel of W (32 KiB) stays in L1 (rounded_block.h).
constexpr int64_t tile_depth(Isa isa, WeightType type) {
  return rounds_to_bf16(isa, type) ? 512 : tile_depth(isa);
}
// Rows of W that are one piece of work, at most: a multiple of every panel_rows, or of a tile's. They are packed
// together for L2, but quantized ones as tiles, of which 32 are packed at a time.
constexpr int64_t block_rows(Isa isa, WeightType type) {
  if (rounds_to_bf16(isa, type)) return 4096;
  return in_tiles(isa, type) ? 64 : 48;
}
// Of an x that is rounded to bf16, a chunk of 1 MiB stays in L2 for all rows: its inputs, and its panels. With more
// inputs fewer sums pass through y, with fewer tokens W is packed more often.
inline constexpr int64_t chunk_depth = 1024;
constexpr int64_t chunk_panels(int64_t inputs) {
  const int64_t panels = (int64_t{1} << 19) / (tile_side * rounded_up(inputs, 512));
  return panels < 1 ? 1 : panels;
}
// Memory of packed numbers, in floats.
constexpr int64_t floats_of(Isa isa, WeightType type, int64_t numbers) {
  return rounds_to_bf16(isa, type) ? numbers / 2 : numbers;
}
// For a block of W. Tiles that add to sums themselves keep these from depth to depth, side by side: in
// y, rows a power of two apart would conflict in one cache set.
constexpr int64_t block_floats(Isa isa, WeightType type) {
  const int64_t depth = tile_depth(isa, type), tile = tile_side * tile_side;
  if (!rounds_to_bf16(isa, type)) return floats_of(isa, type, block_rows(isa, type) * depth);
  return floats_of(isa, type, 2 * tile_side * depth) + tile + chunk_panels(chunk_depth) * tile;
}

// A packed x: all panels of the first depth, then all of the next. A strip has four inputs.
constexpr int64_t packed_floats(Isa isa, WeightType type, int64_t tokens, int64_t in) {
  return floats_of(isa, type, rounded_up(tokens, panel_tokens(isa, type)) *
                                  rounded_up(in, in_tiles(isa, type) ? tile_side : 4));
}

// Of a matrix to be packed. Panels have the other order of a row-major matrix: it is transposed; a
// column-major one is copied.
enum class Layout { row_major, column_major };

// One panel of a packed x, (tokens, in), to its place in `packed`, for weights of a type. x: from the
// panel's first token on.
template <Isa isa, WeightType type, Layout layout>
void pack_tokens(Strided<const float> x, int64_t tokens, int64_t in, int64_t panel, float* packed);

// The x of another product in place of y, rounded to bf16: activate(numbers, count) of the sums.
struct PackedY {
  uint16_t* to = nullptr;
  void (*activate)(float*, int64_t) = nullptr;
};

// y as (column / width, token, column % width), its blocks `step` elements apart. width 0: y is (token, column).
struct ColumnBlocks {
  int64_t width = 0, step = 0;
};

struct Tiles {
  const void* w;     // (rows, in)
  int64_t w_stride;  // elements from a row, or column, to the next
  int64_t rows, in;
  const float* packed;  // x, of all tokens
  int64_t tokens;
  Strided<float> y;
  Sum sum;
  ColumnBlocks columns = {};
  PackedY packed_y = {};
  // From a token and a row on, within a block.
  Strided<float> y_at(int64_t token, int64_t row) const {
    if (columns.width == 0) return {y.at(token) + row, y.stride};
    return {y.at(token) + row / columns.width * columns.step + row % columns.width, y.stride};
  }
};

// y's part (tokens of `panels`, up to block_rows `rows`, from a multiple of 32 on). scratch: block_floats.
template <Isa isa, WeightType type, Layout layout>
void multiply_block(const Tiles& tiles, Range rows, Range panels, float* scratch);
// Of weights and an x that are rounded to bf16 (q8.cpp, low_bits/product.cpp).
template <Isa isa, WeightType type>
void multiply_rounded(const Tiles& tiles, Range rows, Range panels, float* scratch);

// Small matrices, not quantized, where has_tiles(isa): all of W is packed first, then x a panel at a time, which is
// multiplied from L2 at once. Floats are three bf16 numbers.
constexpr int64_t small_parts(WeightType type, bool of_w) {
  if (type == WeightType::f32) return 3;
  return of_w && type == WeightType::bf16 ? 1 : 2;
}
constexpr bool is_small(Isa isa, WeightType type, int64_t out, int64_t in) {
  return has_tiles(isa) && !is_quantized(type) && out * in <= 1 << 18;
}
// 32 rows, and 32 tokens, of which `count` exist, as bf16 numbers.
template <Isa isa, WeightType type>
void pack_small_rows(const void* w, int64_t row, int64_t count, int64_t in, uint16_t* to);
template <Isa isa, WeightType type>
void pack_small_tokens(Strided<const float> x, int64_t count, int64_t in, uint16_t* to);
// From both: y's columns `rows` for one panel, which begins at a token.
template <Isa isa, WeightType type>
void multiply_small(const Tiles& tiles, Range rows, int64_t token);

// Quantized weights, rounded to bf16, as tiles of W (tile_halves.h): 32 rows, of which `count` exist, of
// `depth` columns from a multiple of 32 (q8.cpp, low_bits/product.cpp).
struct QuantizedRows {
  const void* w;  // blocks of 8 rows
  int64_t in, row, column, count, depth;
};
template <Isa isa, WeightType type>
void pack_quantized(const QuantizedRows& from, uint16_t* to);

// ---- q8 weights (q8.cpp)

// Of 32 numbers of 8 bits: the sums of the first and of the last 16.
struct HalfSums {
  int16_t half[2];
  int32_t all() const { return int32_t{half[0]} + half[1]; }
};

// x in 8 bits: groups of q8_tokens tokens, in each (blocks, token) of 32 numbers, with a scale each
// and their sums, for weights that are stored with something added to them. As strips for matrix instructions,
// the 32 numbers of a block are (number / 8, token, number % 8), and the last group is whole, its tokens
// past the end zero.
enum class Q8Layout { rows, strips };
constexpr Q8Layout q8_layout(Isa isa) {  // of many tokens; few are rows
  return has_matrices(isa) ? Q8Layout::strips : Q8Layout::rows;
}
inline constexpr int64_t q8_tokens = 4;
struct Q8Tokens {
  int8_t* value;
  float* scale;
  HalfSums* total;
  int64_t tokens;
  Q8Layout layout;
};
constexpr int64_t q8_token_bytes(int64_t tokens, int64_t in) {
  return rounded_up(tokens, q8_tokens) * q8_blocks(in) *
         int64_t(q8_columns * sizeof(int8_t) + sizeof(float) + sizeof(HalfSums));
}

// One group of tokens. x: from its first token on.
template <Isa isa>
void quantize_tokens(Strided<const float> x, int64_t in, int64_t group, Q8Tokens to);

struct Q8Product {
  const void* w;  // blocks of 8 rows: Q8Block, or those of low_bits/block.h
  int64_t rows, in;
  Q8Tokens x;
  Strided<float> y;
  Sum sum;
};

// Few tokens: y's columns of some groups of 8 rows, read in place, for all tokens.
template <Isa isa>
void q8_few_tokens(const Q8Product& product, Range row_groups);

// Many tokens, unless these are rounded to bf16: rows are copied into a panel, which stays in L2 for all
// tokens.
constexpr int64_t q8_panel_rows(Isa isa) {
  return isa == Isa::avx512_dot || has_matrices(isa) ? 48 : q8_rows;
}
// factors: numbers for each row and block, the scale and others.
constexpr int64_t q8_panel_bytes(Isa isa, int64_t in, int factors) {
  const int64_t copies = has_matrices(isa) ? 2 : 1;  // of each
  return q8_panel_rows(isa) * q8_blocks(in) * int64_t(q8_columns + factors * copies * sizeof(float));
}

// y's columns of one panel, for the tokens of some groups, in q8_layout(isa).
// scratch: q8_panel_bytes.
template <Isa isa>
void q8_many_tokens(const Q8Product& product, int64_t panel, Range token_groups, void* scratch);

// The same for weights of fewer bits (low_bits/product.cpp).
template <Isa isa, WeightType type>
void low_bit_few_tokens(const Q8Product& product, Range row_groups);
template <Isa isa, WeightType type>
void low_bit_many_tokens(const Q8Product& product, int64_t panel, Range token_groups,
                         void* scratch);

}  // namespace deltasane::kernel::cpu
