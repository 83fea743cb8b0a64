// For tests: random quantized weights on a GPU.
#pragma once

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/matmul/check.h"
#include "kernel/matmul/quantized_cuda/matrix.h"

namespace deltasane::kernel::cuda {

inline GpuTensor<std::byte> blocks_of(const kernel::Weights& weights, const Gpu& gpu) {
  GpuTensor<std::byte> blocks(gpu, {int64_t(weights.bytes())}, "a test");
  blocks.upload({weights.rows(), weights.bytes()}, gpu);
  return blocks;
}

}  // namespace deltasane::kernel::cuda
