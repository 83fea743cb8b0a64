// The product of a matrix with the inputs of up to eight sequences: every weight is read once. For
// small_batch.cu.
#pragma once

#include <cstdint>

#include "kernel/matmul/few_rows/few_rows.cuh"
#include "model/rwkv7/decode/packed_weights.cuh"
#include "model/rwkv7/decode/small_batch.h"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7 {
namespace {

// Rows of a matrix that read the same input and have the same epilogue; a multiple of 16 of them.
struct Segment {
  int64_t first = 0;
  const float* mu = nullptr;
  Epilogue epilogue = Epilogue::none;
};

// out = epilogue(W input(x)), for each sequence. input is x, its layer norm, or the norm mixed with
// the norm of the token before.
template <class Weight>
struct SmallBatchProduct {
  FewRowsMatrix<Weight> matrix;
  int64_t sequences = 0;
  const float* x = nullptr;                                  // (sequences, columns)
  const float *norm_weight = nullptr, *norm_bias = nullptr;  // null: no norm
  float norm_eps = 0;
  const DecodeInputs* inputs = nullptr;
  int64_t shift_at = 0;  // of the token before, in a state; where segments have a mu
  int segments = 1;
  Segment segment[7];
  float* store_u = nullptr;  // (sequences, columns), the norm; null: not wanted
  const float* mu_tau = nullptr;
  float* store_tau = nullptr;    // the norm mixed with mu_tau
  const float* shift = nullptr;  // (sequences, rows), stored to the states at shift_at; null: none
  float* out = nullptr;          // (sequences, rows)
  bool add = false;
};

struct Norm {
  float mean, scale;
};

// Of a row, by a warp.
__device__ inline Norm norm_of(const float* x, int64_t count, float eps) {
  const int64_t lane = threadIdx.x % 32;
  float sum = 0, squares = 0;
  for (int64_t c = lane * 4; c < count; c += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + c);
    sum += (v.x + v.y) + (v.z + v.w);
  }
  const float mean = warp_sum(sum) / float(count);
  for (int64_t c = lane * 4; c < count; c += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + c);
    const float a = v.x - mean, b = v.y - mean, d = v.z - mean, e = v.w - mean;
    squares += (a * a + b * b) + (d * d + e * e);
  }
  return {mean, 1.0f / sqrtf(warp_sum(squares) / float(count) + eps)};
}

template <class Weight>
__device__ float norm_at(const SmallBatchProduct<Weight>& p, const Norm& norm, int64_t sequence,
                         int64_t c) {
  const float x = p.x[sequence * p.matrix.columns + c];
  return p.norm_weight ? (x - norm.mean) * norm.scale * p.norm_weight[c] + p.norm_bias[c] : x;
}
template <class Weight>
__device__ float mixed(const SmallBatchProduct<Weight>& p, float u, int64_t sequence, int64_t c,
                       const float* mu) {
  return mu ? u + (p.inputs->state[sequence][p.shift_at + c] - u) * mu[c] : u;
}

template <class Weight>
__device__ int segment_of(const SmallBatchProduct<Weight>& p, int64_t row) {
  int segment = 0;
  while (segment + 1 < p.segments && p.segment[segment + 1].first <= row) ++segment;
  return segment;
}

// N sequences at most, R rows per warp at a time.
template <class Weight, int N, int R>
__global__ void __launch_bounds__(few_threads) small_batch_product(SmallBatchProduct<Weight> p) {
  extern __shared__ float4 dynamic_shared[];
  static __shared__ Norm norm[N];
  float* const input = reinterpret_cast<float*>(dynamic_shared);  // (N, p.matrix.staged)
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int64_t rows = p.matrix.rows, columns = p.matrix.columns;
  RegisterTile<Weight, R> tile;
  trigger_dependent_launch();
  tile.load(p.matrix, tile.row_of(blockIdx.x), 0);
  if (p.norm_weight) {
    prefetch_l2(p.norm_weight, columns * int64_t(sizeof(float)));
    prefetch_l2(p.norm_bias, columns * int64_t(sizeof(float)));
  }
  if (const float* const mu = p.segment[segment_of(p, int64_t(blockIdx.x) * few_warps * R)].mu) {
    prefetch_l2(mu, columns * int64_t(sizeof(float)));
    for (int64_t n = 0; n < p.sequences; ++n)
      prefetch_l2(p.inputs->state[n] + p.shift_at, columns * int64_t(sizeof(float)));
  }
  grid_dependency_synchronize();

  if (p.norm_weight) {
    if (warp < N) {
      const float* const row = p.x + min(int64_t(warp), p.sequences - 1) * columns;
      const Norm found = norm_of(row, columns, p.norm_eps);
      if (lane == 0) norm[warp] = found;
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && p.store_u)
    for (int64_t i = threadIdx.x; i < p.sequences * columns; i += few_threads) {
      const int64_t n = i / columns, c = i % columns;
      const float u = norm_at(p, norm[n], n, c);
      p.store_u[i] = u;
      if (p.mu_tau) p.store_tau[i] = mixed(p, u, n, c, p.mu_tau);
    }

  if (blockIdx.x == 0 && p.shift)
    for (int64_t n = 0; n < p.sequences; ++n)
      for (int64_t c = threadIdx.x; c < rows; c += few_threads)
        p.inputs->state[n][p.shift_at + c] = p.shift[n * rows + c];

  multiply_few_rows<Weight, N>(
      p.matrix, tile, input, gridDim.x, [&](int64_t row) { return segment_of(p, row); },
      [&](int64_t from, int segment) {
        stage_columns<Weight, N>(p.matrix, from, input, [&](int n, int64_t c) {
          const int64_t sequence = min(int64_t(n), p.sequences - 1);
          return mixed(p, norm_at(p, norm[n], sequence, c), sequence, c, p.segment[segment].mu);
        });
      },
      [&](int n, int64_t row, int segment, float sum) {
        if (n >= p.sequences) return;
        const float value = apply(p.segment[segment].epilogue, sum);
        float& place = p.out[n * rows + row];
        place = p.add ? place + value : value;
      });
}

template <class Weight>
void multiply(SmallBatchProduct<Weight> p, const Gpu& gpu) {
  with_few(p.sequences, [&]<int N>() {
    with_rows_per_warp<Weight, N>(
        p.matrix, gpu.properties().multiprocessors, 8, [&]<int R>(unsigned blocks) {
          launch_dependent(
              small_batch_product<Weight, N, R>,
              {dim3(blocks), few_threads, size_t(N * p.matrix.staged) * sizeof(float)}, gpu, p);
        });
  });
}

}  // namespace
}  // namespace deltasane::rwkv7
