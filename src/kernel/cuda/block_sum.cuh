// Sums over the threads of a block, whole warps. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include "kernel/cuda/warp_reduce.cuh"

namespace deltasane::kernel::cuda {

// Once in a kernel; thread 0 gets the sum. Nothing is written after the barrier: the compiler may
// let other threads read there too.
__device__ inline double block_sum(double x) {
  __shared__ double of_warp[32];
  for (int far = 16; far > 0; far /= 2) x += __shfl_down_sync(~0u, x, far);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 1; i < blockDim.x / 32; ++i) x += of_warp[i];
  return x;
}

// Several sums, in the order of the threads; every thread gets them. Double buffered, so that one
// barrier a call is enough: a thread that writes a buffer again has passed the barrier of the call
// between, and so has every reader of it.
template <int max_values>
struct BlockSums {
  float (*buffer)[32 * max_values];  // two, in shared memory
  int turn = 0;

  template <int values>
  __device__ void operator()(float (&x)[values]) {
    static_assert(values <= max_values);
    const int warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32;
    float* const mine = buffer[turn];
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < values; ++i) {
      x[i] = warp_sum(x[i]);
      if (threadIdx.x % 32 == 0) mine[warp * values + i] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < values; ++i) x[i] = 0;
    for (int w = 0; w < warps; ++w)
#pragma unroll
      for (int i = 0; i < values; ++i) x[i] += mine[w * values + i];
  }
};

}  // namespace deltasane::kernel::cuda
