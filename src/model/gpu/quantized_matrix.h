// Matrices of a model in a GPU's memory as blocks of a quantized type (kernel/matmul/quantized_cuda/).
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "kernel/matmul/weights.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {

// The type of a model's matrices on a GPU: bf16 unless another is wanted.
inline kernel::WeightType weight_type_on_gpu(std::optional<kernel::WeightType> wanted) {
  if (wanted == kernel::WeightType::f16)
    fail(Fault::usage, "weights on a GPU: expected f32, bf16, q8, q6_k, q5_k, q4_k or q4, found f16");
  return wanted.value_or(kernel::WeightType::bf16);
}

// The blocks of `weights`, and blocks of zeros for what `rows` are more than theirs.
inline GpuBuffer upload_blocks(const kernel::Weights& weights, int64_t rows, const Gpu& gpu,
                               const std::string& purpose) {
  require(is_quantized(weights.type()) && rows >= weights.out(), "blocks have room on a GPU");
  const uint64_t of_eight = weights.bytes() / uint64_t(kernel::q8_groups(weights.out()));
  GpuBuffer memory(gpu, of_eight * uint64_t(kernel::q8_groups(rows)), purpose);
  zero_on_gpu(memory.data(), memory.size(), gpu);
  copy_to_gpu(memory.data(), weights.rows(), weights.bytes(), gpu);
  gpu.wait();
  return memory;
}

}  // namespace deltasane
