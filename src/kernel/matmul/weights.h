// A weight matrix (out, in) in the form the matrix products read it.
//
//   f32 f16 bf16   row-major, in place: a view of a mapped file, or an owned copy
//   q8             8-bit numbers with one scale per 32 inputs (Q8Block below), always owned
//   q6_k q5_k q4_k q4   GGUF's Q6_K, Q5_K, Q4_K, Q4_0 (low_bits/block.h), always owned
//
// A q8 weight is scale * value. From floats: scale is the smallest f16 number that is at least
// max|w| / 127 of its 32, value = w / scale rounded to nearest; so each weight is off by at most
// scale / 2. From GGUF's blocks nothing is rounded again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernel/matmul/q8_block.h"
#include "kernel/matmul/weight_type.h"
#include "tensor/buffer.h"

namespace deltasane::kernel {

// The type with this name, in any case and by any alias (base/words/type_name.h). Another name fails,
// and the message begins with `what`. also: what else is allowed there, as "file, ".
WeightType weight_type_named(std::string_view name, std::string_view what, std::string_view also = {});

// An arena for many matrices, in large blocks, which are on huge pages: without these a product of
// a few MB reads a tenth slower. It must outlive the matrices it holds.
class WeightMemory {
 public:
  // The unused part of a block is never touched.
  explicit WeightMemory(uint64_t block_bytes = uint64_t{64} << 20) : block_bytes_(block_bytes) {}
  std::byte* allocate(uint64_t bytes);

 private:
  uint64_t block_bytes_;
  std::vector<Buffer> blocks_;
  uint64_t used_ = 0;  // of the last block
};

class Weights {
 public:
  // rows: out x in elements of f32, f16 or bf16, aligned to one element; they must outlive this.
  static Weights view(WeightType type, const void* rows, int64_t out, int64_t in);
  // Copies are in `memory`; null: in memory of their own.
  // f32, f16 and bf16 by rounding to nearest, ties to even; or q8 as above.
  static Weights copied(WeightType type, std::span<const float> rows, int64_t out, int64_t in,
                        WeightMemory* memory = nullptr);
  static Weights quantized(std::span<const float> rows, int64_t out, int64_t in,
                           WeightMemory* memory = nullptr);
  static Weights copied(const Weights& other, WeightMemory* memory = nullptr);  // same type
  // f32, f16 or bf16, without a copy in between
  static Weights quantized(const Weights& floats, WeightMemory* memory = nullptr);
  // GGUF's blocks, row by row, to the type that has their numbers: q8 from Q8_0 (an f16 scale and 32
  // values), q6_k, q5_k, q4_k, and q4 from Q4_0. in: whole blocks, of 32 or of 256 columns.
  static Weights from_gguf(WeightType type, std::span<const std::byte> blocks, int64_t out,
                           int64_t in, WeightMemory* memory = nullptr);

  WeightType type() const { return type_; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  uint64_t bytes() const;  // of the matrix as it is held, owned or not
  float at(int64_t row, int64_t column) const;

  // f32, f16, bf16: rows. Quantized: (groups of 8 rows, blocks of columns).
  const std::byte* rows() const { return rows_; }

 private:
  Weights(WeightType type, int64_t out, int64_t in);
  std::byte* own(WeightMemory* memory);  // bytes() of memory; zeros for quantized types

  WeightType type_;
  int64_t out_, in_;
  const std::byte* rows_ = nullptr;
  Buffer owned_;
};

}  // namespace deltasane::kernel
