#include "kernel/sums/cuda.h"

#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 1024;

// One block: a thread adds every 1024th number, then a tree reduction.
__global__ void add_sum_in_one_block(const double* values, int64_t count, double* sum) {
  __shared__ double part[threads];
  double mine = 0;
  for (int64_t i = threadIdx.x; i < count; i += threads) mine += values[i];
  part[threadIdx.x] = mine;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum += part[0];
}

}  // namespace

void add_sum(const double* values, int64_t count, double* sum, const Gpu& gpu) {
  launch(add_sum_in_one_block, {dim3(1), dim3(threads)}, gpu, values, count, sum);
}

}  // namespace deltasane::kernel::cuda
