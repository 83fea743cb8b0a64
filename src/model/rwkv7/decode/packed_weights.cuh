// What the single-token kernels share: L2 prefetch, epilogues of products. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/packed_weights.cuh"

namespace deltasane::rwkv7 {

using namespace kernel::cuda;

// Into L2, by all threads of a block.
__device__ inline void prefetch_l2(const void* from, int64_t bytes) {
  for (int64_t i = threadIdx.x * 128; i < bytes; i += blockDim.x * 128)
    prefetch_l2_line(static_cast<const char*>(from) + i);
}

enum class Epilogue { none, tanh, sigmoid, squared_relu };

__device__ inline float apply(Epilogue epilogue, float value) {
  if (epilogue == Epilogue::none) return value;
  if (epilogue == Epilogue::squared_relu) return value < 0 ? 0.0f : value * value;  // keeps NaN
  return epilogue == Epilogue::tanh ? tanhf(value) : sigmoid(value);
}

}  // namespace deltasane::rwkv7
