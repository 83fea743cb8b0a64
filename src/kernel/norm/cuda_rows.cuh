// Layer norms of rows that are gathered by index or at a fixed stride: a block per row. For .cu
// files.
#pragma once

#include "kernel/norm/cuda_moments.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {

// y[row] = layer_norm(x[index of row]), or the row itself without a norm.
template <class In, class Out>
struct NormRows {
  const In* x;
  const int32_t* index;  // null: first + row step
  int64_t first, step, channels;
  const float *weight, *bias;  // null: no norm
  float eps;
  Out* y;
};

template <class In, class Out>
__global__ void __launch_bounds__(1024) norm_each(const __grid_constant__ NormRows<In, Out> op) {
  __shared__ float place[2][32];
  BlockSums<1> sums{place};
  const int channels = int(op.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t row = blockIdx.x;
  const int64_t from = op.index ? int64_t(op.index[row]) : op.first + row * op.step;
  float x[1][octet] = {};
  if (mine) load(op.x + from * channels + c, x[0]);
  if (op.weight) {
    Moments of[1];
    moments_of(x, mine, channels, op.eps, sums, of);
    if (!mine) return;
    float weight[octet], bias[octet];
    load(op.weight + c, weight);
    load(op.bias + c, bias);
#pragma unroll
    for (int i = 0; i < octet; ++i) x[0][i] = normalized(x[0][i], of[0], weight[i], bias[i]);
  }
  if (mine) store(op.y + row * channels + c, x[0]);
}

template <class In, class Out>
void norm_rows(int64_t rows, const NormRows<In, Out>& op, const Gpu& gpu) {
  const unsigned threads = threads_of_row(op.channels);
  require((op.weight == nullptr) == (op.bias == nullptr), "a norm has a weight and a bias");
  require_aligned(op.x, op.weight, op.bias, op.y);
  if (rows > 0) launch(norm_each<In, Out>, {unsigned(rows), threads}, gpu, op);
}

}  // namespace deltasane::kernel::cuda
