#include "kernel/state_scan/cuda.h"

#include "kernel/cuda/block_sum.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

__global__ void largest_kernel(const float* values, int64_t count, int32_t* largest) {
  int32_t found = 0;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    found = max(found, __float_as_int(values[i]) & 0x7fffffff);
  for (int apart = 16; apart > 0; apart /= 2)
    found = max(found, __shfl_xor_sync(~0u, found, apart));
  if (threadIdx.x % 32 == 0) atomicMax(largest, found);
}

constexpr int square_threads = 256;

// By a block, once in a kernel; thread 0 gets it.
__device__ double sum_of_squares(const float* values, int64_t size) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += square_threads)
    sum += double(values[i]) * double(values[i]);
  return block_sum(sum);
}

// A block per sum.
__global__ void __launch_bounds__(square_threads)
    squares_kernel(const float* values, int64_t size, double* squares) {
  const double sum = sum_of_squares(values + int64_t(blockIdx.x) * size, size);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// A block per (head, sequence).
__global__ void __launch_bounds__(square_threads) adapt_alphas_kernel(AdaptAlphas op) {
  constexpr int64_t matrix = AdaptAlphas::head_size * AdaptAlphas::head_size;
  const int64_t head = blockIdx.x, sequence = blockIdx.y;
  const double norm =
      sqrt(sum_of_squares(op.memory + (sequence * op.heads + head) * matrix, matrix));
  if (threadIdx.x != 0) return;
  const int64_t at = (sequence * op.layers + op.layer) * op.heads + head;
  if (op.measurement == AdaptAlphas::Measurement::first) {
    op.references[at] = norm;
    op.alphas[at] = float(op.highest);
    return;
  }
  const double now = op.alphas[at], reference = op.references[at];
  if (norm > op.too_large * reference)
    op.alphas[at] = float(fmax(op.lowest, now * op.factor));
  else if (norm < op.small_again * reference)
    op.alphas[at] = float(fmin(op.highest, now / op.factor));
}

dim3 grid_of(int64_t x, int64_t y) { return dim3(unsigned(x), unsigned(y)); }

}  // namespace

void largest_magnitude(const float* values, int64_t count, int32_t* largest, const Gpu& gpu) {
  zero_on_gpu(largest, sizeof(int32_t), gpu);
  if (count == 0) return;
  const int64_t wanted = (count + 1023) / 1024;
  const int64_t most = 4 * gpu.properties().multiprocessors;
  launch(largest_kernel, {dim3(unsigned(wanted < most ? wanted : most)), 256}, gpu, values, count,
         largest);
}

void sums_of_squares(const float* values, int64_t count, int64_t size, double* squares,
                     const Gpu& gpu) {
  if (count == 0) return;
  launch(squares_kernel, {dim3(unsigned(count)), square_threads}, gpu, values, size, squares);
}

void adapt_alphas(const AdaptAlphas& op, const Gpu& gpu) {
  launch(adapt_alphas_kernel, {grid_of(op.heads, op.sequences), square_threads}, gpu, op);
}

}  // namespace deltasane::kernel::cuda
