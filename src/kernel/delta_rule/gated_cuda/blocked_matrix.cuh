// A matrix of bf16 numbers in global memory as blocks of 8 x 8, each row after row: what a warp
// holds of a block are 128 contiguous bytes, and ldmatrix reads it from a copy in shared memory.
#pragma once

#include "base/half.h"
#include "kernel/cuda/fragment.cuh"

namespace deltasane::kernel::cuda {

struct BlockedMatrix {
  uint32_t* words;
  int column_blocks;

  // Of the 16 x 16 numbers from (row, column) on: this lane's words of one plane.
  __device__ uint32_t* at(int row, int column, int i) const {
    uint32_t* const first =
        words + int64_t(row / 8 * column_blocks + column / 8) * 32 + threadIdx.x % 32;
    return first + (i % 2 * column_blocks + i / 2) * 32;  // known when compiled
  }
  __device__ void store(const uint32_t (&plane)[4], int row, int column) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) *at(row, column, i) = plane[i];
  }
};
__device__ inline BlockedMatrix blocked(bf16* numbers, int64_t from, int columns) {
  return {reinterpret_cast<uint32_t*>(numbers + from), columns / 8};
}

}  // namespace deltasane::kernel::cuda
