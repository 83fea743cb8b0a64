// Sums over rows in two stages: every block stores the partial sums of its rows, then those of all
// blocks are added in order. There are no atomics, so results are deterministic. For .cu files.
#pragma once

#include <cstdint>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

inline constexpr int max_sets = 8;

// How many blocks store partial sums: `on_each` for each multiprocessor of an H200, whatever the
// GPU, so that results are the same on all. More than run at once would start when others have
// ended.
constexpr int64_t blocks_with_partials(int64_t on_each) { return on_each * 132; }

struct PartialSums {
  int64_t blocks, channels;  // channels: a multiple of 32
  int sets;
  const float* partial;  // (blocks, sets, channels)
  float* to[max_sets];  // (channels) each; accumulated into
};
void add_partials(const PartialSums& sums, const Gpu& gpu);

// Stores this thread's channels of set `set`.
__device__ inline void store_partial(float* partial, int sets, int set, int channels, int c,
                                     const float (&x)[octet]) {
  store(partial + (int64_t(blockIdx.x) * sets + set) * channels + c, x);
}

}  // namespace deltasane::kernel::cuda
