// A matrix (rows, columns) in a GPU's memory: rows of numbers, or blocks of a quantized type, which are
// those of kernel::Weights, byte for byte. It does not own them.
//
// A quantized matrix is, by definition, the bf16 matrix that its numbers round to: products with its
// blocks and with that matrix differ in the order of sums alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/matmul/weight_type.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct GpuMatrix {
  constexpr GpuMatrix() = default;
  constexpr GpuMatrix(const Real* numbers) : rows(numbers) {}
  constexpr GpuMatrix(WeightType quantized, const std::byte* packed)
      : blocks(packed), type(quantized) {}

  bool is_quantized() const { return blocks != nullptr; }

  const Real* rows = nullptr;          // one of both
  const std::byte* blocks = nullptr;   // 8 rows at a time, those past the end zero
  WeightType type = WeightType::bf16;  // of the blocks
};

// Columns of a quantized matrix that the blocks of `columns` inputs have: whole 32.
constexpr int64_t columns_in_blocks(int64_t columns) { return (columns + 31) / 32 * 32; }

}  // namespace deltasane::kernel::cuda
