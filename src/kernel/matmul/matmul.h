// Products with weight matrices.
//
//     y = x W'        W (out, in), as in the official *.weight tensors
//
// x (tokens, in) and y (tokens, out) have contiguous rows and do not overlap.
// Sums are float. f32, f16 and bf16 weights are multiplied with x as it is, but for two cases.
// Where the processor multiplies matrices of bf16 numbers, many tokens are multiplied with bf16
// weights (with tiles: f16 ones too) as sums of two bf16 numbers, each x off by at most 2^-17 |x|; small f32 ones, with
// tiles, as sums of three, each product off by at most 2^-22 of itself. Where it adds products of
// f16 numbers to floats, one token is multiplied with f16 weights as sums of two f16 numbers, each
// x off by at most 2^-22 |x| + 2^-38 max|x|. For q8 weights, and those of 6 to 4 bits, x is rounded
// to 8 bits as well, per token and 32 inputs: scale = max|x| / 127, so each x is off by at most
// scale / 2, and the products are exact integers until they are scaled. Where there are tiles, many
// tokens round x and those weights to bf16 instead: each product is off by less than 2^-8 + 2^-18 of
// itself, which is less than 8 bits allow it, |w| max|x| / 254.
//
// A token's result does not depend on the number of threads, nor on the other tokens, but for one
// thing: alone, among few and among many (matmul_few_tokens) its sums are ordered differently, and
// may differ in the last bits. q8 has no such difference, unless many tokens are rounded to bf16.
// reference.cpp is the definition; everything else in this folder is a faster way to compute it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kernel/activation/activation.h"
#include "kernel/cpu_device.h"
#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/weights.h"
#include "kernel/store.h"
#include "tensor/view.h"

namespace deltasane::kernel {

void matmul(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu,
            Store store = Store::overwrite);

// Computes a row of x.
using RowsOfX = std::function<void(int64_t row, float* to)>;

struct Matmul {
  const Weights& w;
  View<const float> x;
  View<float> y;
  Store store = Store::overwrite;
  std::optional<Activation> activation = {};  // of y, at last; not for MatmulPieces
  // If given, x has a shape only, and its rows are computed where they are needed, in cache. For more
  // than matmul_few_tokens, and not where the inputs' squares are wanted.
  RowsOfX rows_of_x = {};
  // If not 0, y is (out / y_columns, tokens, y_columns) in the memory of its view: blocks of columns, such as
  // heads, lie apart, and tiles of one write to memory in a row. A multiple of 32; for more than matmul_few_tokens.
  int64_t y_columns = 0;
};

// Several products, none of which needs another's y. Each gives the bits it gives alone; for few
// tokens they are one parallel region, in which no thread waits at the end of a matrix.
void matmul_all(std::span<const Matmul> products, const Cpu& cpu);

// Two products, the second of which has the first's y, activated, as its x: the bits of one after the other. Where
// both round to bf16, x is what the first writes, and its y stays unwritten.
void matmul_chain(const Matmul& first, const Matmul& second, const Cpu& cpu);

// One token is added up as one among few: up to matmul_few_tokens, its bits do not depend on how many there are.
void matmul_few_alike(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu);

// Up to this many tokens, the weights are read once and in place; above, in packed panels.
inline constexpr int64_t matmul_few_tokens = 12;

// Whether x is split into sums of two bf16 numbers.
constexpr bool multiplies_bf16_pairs(WeightType type, int64_t tokens, Isa isa) {
  return tokens > matmul_few_tokens && !is_quantized(type) &&
         (cpu::in_matrices(isa, type) || cpu::in_tiles(isa, type));
}
// Whether a product may have y_columns: where tiles write it.
inline bool multiplies_in_columns(const Weights& w, int64_t tokens, Isa isa) {
  return tokens > matmul_few_tokens &&
         (cpu::in_tiles(isa, w.type()) || cpu::is_small(isa, w.type(), w.out(), w.in()));
}
// Whether x and the weights are rounded to bf16.
constexpr bool multiplies_bf16(WeightType type, int64_t tokens, Isa isa) {
  return tokens > matmul_few_tokens && cpu::rounds_to_bf16(isa, type);
}

}  // namespace deltasane::kernel
