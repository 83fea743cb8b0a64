#include "kernel/attention/whole_cuda.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;

__device__ float block_max(float x, float* of_warp) {
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  for (int i = 0; i < threads / 32; ++i) x = fmaxf(x, of_warp[i]);
  return x;
}

// A block per query and head.
template <class Real>
__global__ void __launch_bounds__(threads)
    softmax_rows(const __grid_constant__ SoftmaxBlock<Real> op) {
  __shared__ float of_warp[threads / 32];
  __shared__ float place[2][32];
  BlockSums<1> sums{place};
  const int64_t token = op.first + blockIdx.x % op.queries, at = int64_t(blockIdx.x) * op.keys;
  const auto sees = [&](int64_t key) {
    return key <= token && (op.window == 0 || token - key < op.window) &&
           (!op.present || (op.present[key] && op.present[token]));
  };
  float largest = -INFINITY;
  for (int64_t j = threadIdx.x; j < op.keys; j += threads)
    if (sees(j)) largest = fmaxf(largest, op.scale * op.scores[at + j]);
  largest = block_max(largest, of_warp);
  const auto term = [&](int64_t j) {
    return sees(j) ? expf(op.scale * op.scores[at + j] - largest) : 0.0f;
  };
  float sum[1] = {};
  for (int64_t j = threadIdx.x; j < op.keys; j += threads) sum[0] += term(j);
  sums(sum);
  const float share = sum[0] > 0 ? 1.0f / sum[0] : 0.0f;
  float along[1] = {};
  if (op.dp) {
    for (int64_t j = threadIdx.x; j < op.keys; j += threads)
      along[0] = fmaf(term(j) * share, op.dp[at + j], along[0]);
    sums(along);
  }
  for (int64_t j = threadIdx.x; j < op.keys; j += threads) {
    const float p = term(j) * share;
    store_one(op.p + at + j, p);
    if (op.dp) store_one(op.ds + at + j, op.scale * p * (op.dp[at + j] - along[0]));
  }
}

template <class Real>
__global__ void __launch_bounds__(threads)
    store_each(const float* x, int64_t count, int64_t size, Real* to, int64_t step) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < count) store_one(to + i / size * step + i % size, x[i]);
}

}  // namespace

template <class Real>
void softmax_block(const SoftmaxBlock<Real>& op, const Gpu& gpu) {
  if (op.heads * op.queries > 0)
    launch(softmax_rows<Real>, {unsigned(op.heads * op.queries), threads}, gpu, op);
}

template <class Real>
void store_rows(const float* x, int64_t rows, int64_t size, Real* to, int64_t step,
                const Gpu& gpu) {
  const int64_t count = rows * size;
  if (count > 0)
    launch(store_each<Real>, {unsigned((count + threads - 1) / threads), threads}, gpu, x, count,
           size, to, step);
}

template void softmax_block(const SoftmaxBlock<float>&, const Gpu&);
template void softmax_block(const SoftmaxBlock<bf16>&, const Gpu&);
template void store_rows(const float*, int64_t, int64_t, float*, int64_t, const Gpu&);
template void store_rows(const float*, int64_t, int64_t, bf16*, int64_t, const Gpu&);

}  // namespace deltasane::kernel::cuda
