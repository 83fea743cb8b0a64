// Sums over rows in two stages: every block leaves what its rows gave, then all blocks' are added
// in their order. Nothing is added by atomics, so results are the same every time. For .cu files.
#pragma once

#include <cstdint>

#include "kernel/cuda_lanes.cuh"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

inline constexpr int most_sets = 8;

// How many blocks leave sums: so many on each multiprocessor of an H200, whatever the GPU, so that
// results are the same on all. More than are at work at once would begin when others have ended.
constexpr int64_t blocks_with_partials(int64_t on_each) { return on_each * 132; }

struct PartialSums {
  int64_t blocks, channels;  // channels: a multiple of 32
  int sets;
  const float* partial;  // (blocks, sets, channels)
  float* to[most_sets];  // (channels) each, added to
};
void add_partials(const PartialSums& sums, const Gpu& gpu);

// This thread's channels of set `set`.
__device__ inline void leave_partial(float* partial, int sets, int set, int channels, int c,
                                     const float (&x)[octet]) {
  store(partial + (int64_t(blockIdx.x) * sets + set) * channels + c, x);
}

}  // namespace deltasane::kernel::cuda
