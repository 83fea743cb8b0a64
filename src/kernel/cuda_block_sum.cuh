// A sum of doubles over a block. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

// Of whole warps, once in a kernel; thread 0 gets it. Nothing is written after the barrier: the
// compiler may let other threads read there too.
__device__ inline double block_sum(double x) {
  __shared__ double of_warp[32];
  for (int far = 16; far > 0; far /= 2) x += __shfl_down_sync(~0u, x, far);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 1; i < blockDim.x / 32; ++i) x += of_warp[i];
  return x;
}

}  // namespace deltasane::kernel::cuda
