#include "kernel/cuda/partial_sums.cuh"

#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int side = 32;

// A block has 32 columns of (set, channel); each of its 32 rows of threads adds every 32nd partial
// sum.
__global__ void __launch_bounds__(side* side)
    add_columns(const __grid_constant__ PartialSums sums) {
  __shared__ float row_sums[side][side + 1];
  const int64_t width = sums.sets * sums.channels;
  const int64_t column = int64_t(blockIdx.x) * side + threadIdx.x;
  float sum = 0;
  for (int64_t block = threadIdx.y; block < sums.blocks; block += side)
    sum += sums.partial[block * width + column];
  row_sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0) return;
  sum = 0;
  for (int row = 0; row < side; ++row) sum += row_sums[row][threadIdx.x];
  sums.to[column / sums.channels][column % sums.channels] += sum;
}

}  // namespace

void add_partials(const PartialSums& sums, const Gpu& gpu) {
  require(sums.sets > 0 && sums.sets <= max_sets && sums.channels % side == 0,
          "partial sums: expected up to eight sets of a multiple of 32 channels");
  for (int i = 0; i < sums.sets; ++i)
    require(sums.to[i] != nullptr, "partial sums: every set has a destination");
  launch(add_columns, {unsigned(sums.sets * sums.channels / side), dim3(side, side)}, gpu, sums);
}

}  // namespace deltasane::kernel::cuda
