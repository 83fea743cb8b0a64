// The product of a matrix with the inputs of up to eight sequences: every weight is read once. For
// small_batch.cu.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "model/rwkv7/decode/packed_weights.cuh"
#include "model/rwkv7/decode/small_batch.h"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7 {

inline constexpr int threads = 256, warps = threads / 32;
inline constexpr int in_flight = 8;             // loads of 16 bytes that a thread has in flight
inline constexpr int staged_floats = 16 << 10;  // of inputs in shared memory

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
  const Weight* matrix = nullptr;
  int64_t rows = 0, columns = 0, sequences = 0;
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
  int64_t staged = 0;  // columns of the input in shared memory at a time
};

template <class Weight, int R>
inline constexpr int tile_columns = in_flight / R * 32 * weights_per_load<Weight>;

// A warp's weights in registers: tile_columns of R rows.
template <class Weight, int R>
struct RegisterTile {
  uint4 raw[R][in_flight / R];

  __device__ void load(const SmallBatchProduct<Weight>& p, int64_t row, int64_t from) {
    const int64_t mine = from + int64_t(threadIdx.x % 32) * weights_per_load<Weight>;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Weight* const weights = p.matrix + min(row + r, p.rows - 1) * p.columns;
#pragma unroll
      for (int u = 0; u < in_flight / R; ++u) {
        const int64_t c = mine + u * 32 * weights_per_load<Weight>;
        raw[r][u] = c < p.columns ? __ldcs(reinterpret_cast<const uint4*>(weights + c))
                                  : make_uint4(0, 0, 0, 0);
      }
    }
  }
  template <int N>
  __device__ void multiply(const float* input, int64_t staged, float (&sum)[R][N]) const {
    constexpr int V = weights_per_load<Weight>;
#pragma unroll
    for (int u = 0; u < in_flight / R; ++u) {
      float w[R][V];
#pragma unroll
      for (int r = 0; r < R; ++r) unpack(raw[r][u], w[r], Weight());
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float* const x = input + n * staged + u * 32 * V + (int(threadIdx.x) % 32) * 4;
#pragma unroll
        for (int v = 0; v < V; v += 4) {
          const float4 four = *reinterpret_cast<const float4*>(x + v * 32);
#pragma unroll
          for (int r = 0; r < R; ++r)
            sum[r][n] += w[r][v] * four.x + w[r][v + 1] * four.y + w[r][v + 2] * four.z +
                         w[r][v + 3] * four.w;
        }
      }
    }
  }
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
  const float x = p.x[sequence * p.columns + c];
  return p.norm_weight ? (x - norm.mean) * norm.scale * p.norm_weight[c] + p.norm_bias[c] : x;
}
template <class Weight>
__device__ float mixed(const SmallBatchProduct<Weight>& p, float u, int64_t sequence, int64_t c,
                       const float* mu) {
  return mu ? u + (p.inputs->state[sequence][p.shift_at + c] - u) * mu[c] : u;
}

// The input of columns [from, from + p.staged) to shared memory, zero beyond the last column.
template <class Weight, int N>
__device__ void stage(const SmallBatchProduct<Weight>& p, const Norm (&norm)[N], int64_t from,
                      const float* mu, float* input) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int64_t sequence = min(int64_t(n), p.sequences - 1);
    for (int64_t i = threadIdx.x; i < p.staged; i += threads) {
      const int64_t c = from + i;
      input[n * p.staged + swizzled<Weight>(int(i))] =
          c < p.columns ? mixed(p, norm_at(p, norm[n], sequence, c), sequence, c, mu) : 0.0f;
    }
  }
}

template <class Weight>
__device__ int segment_of(const SmallBatchProduct<Weight>& p, int64_t row) {
  int segment = 0;
  while (segment + 1 < p.segments && p.segment[segment + 1].first <= row) ++segment;
  return segment;
}

// N sequences at most, R rows per warp at a time.
template <class Weight, int N, int R>
__global__ void __launch_bounds__(threads) small_batch_product(SmallBatchProduct<Weight> p) {
  extern __shared__ __align__(16) float input[];  // (N, p.staged)
  __shared__ Norm norm[N];
  constexpr int64_t columns_at_once = tile_columns<Weight, R>;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto row_of = [&](int64_t group) { return (group * warps + warp) * R; };
  const int64_t groups = (p.rows + warps * R - 1) / (warps * R);
  RegisterTile<Weight, R> tile;
  trigger_dependent_launch();
  tile.load(p, row_of(blockIdx.x), 0);
  if (p.norm_weight) {
    prefetch_l2(p.norm_weight, p.columns * int64_t(sizeof(float)));
    prefetch_l2(p.norm_bias, p.columns * int64_t(sizeof(float)));
  }
  if (const float* const mu = p.segment[segment_of(p, int64_t(blockIdx.x) * warps * R)].mu) {
    prefetch_l2(mu, p.columns * int64_t(sizeof(float)));
    for (int64_t n = 0; n < p.sequences; ++n)
      prefetch_l2(p.inputs->state[n] + p.shift_at, p.columns * int64_t(sizeof(float)));
  }
  grid_dependency_synchronize();

  if (p.norm_weight) {
    if (warp < N) {
      const float* const row = p.x + min(int64_t(warp), p.sequences - 1) * p.columns;
      const Norm found = norm_of(row, p.columns, p.norm_eps);
      if (lane == 0) norm[warp] = found;
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && p.store_u)
    for (int64_t i = threadIdx.x; i < p.sequences * p.columns; i += threads) {
      const int64_t n = i / p.columns, c = i % p.columns;
      const float u = norm_at(p, norm[n], n, c);
      p.store_u[i] = u;
      if (p.mu_tau) p.store_tau[i] = mixed(p, u, n, c, p.mu_tau);
    }

  if (blockIdx.x == 0 && p.shift)
    for (int64_t n = 0; n < p.sequences; ++n)
      for (int64_t c = threadIdx.x; c < p.rows; c += threads)
        p.inputs->state[n][p.shift_at + c] = p.shift[n * p.rows + c];

  int64_t staged_from = -1;
  int staged_segment = -1;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int segment = segment_of(p, group * warps * R);
    float sum[R][N] = {};
    for (int64_t from = 0; from < p.columns; from += columns_at_once) {
      const int64_t stage_from = from / p.staged * p.staged;
      if (stage_from != staged_from || segment != staged_segment) {
        __syncthreads();
        stage<Weight, N>(p, norm, stage_from, p.segment[segment].mu, input);
        __syncthreads();
        staged_from = stage_from, staged_segment = segment;
      }
      RegisterTile<Weight, R> next = tile;
      if (from + columns_at_once < p.columns)
        next.load(p, row_of(group), from + columns_at_once);
      else if (group + gridDim.x < groups)
        next.load(p, row_of(group + gridDim.x), 0);
      tile.template multiply<N>(input + (from - stage_from), p.staged, sum);
      tile = next;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float value = apply(p.segment[segment].epilogue, warp_sum(sum[r][n]));
        const int64_t row = row_of(group) + r;
        if (lane != r * N + n || n >= p.sequences || row >= p.rows) continue;
        float& place = p.out[n * p.rows + row];
        place = p.add ? place + value : value;
      }
  }
}

// Matrices of many rows: two per warp, so that an input read from shared memory is used twice.
template <class Weight, int N>
void multiply(SmallBatchProduct<Weight> p, const Gpu& gpu) {
  const int64_t processors = gpu.properties().multiprocessors;
  const int rows_per_warp = p.rows >= 24 * processors ? 2 : 1;
  const auto run = [&]<int R>() {
    constexpr int64_t at_once = tile_columns<Weight, R>;
    const int64_t all = (p.columns + at_once - 1) / at_once * at_once;
    p.staged = std::min<int64_t>(all, staged_floats / N / at_once * at_once);
    const int64_t groups = (p.rows + warps * R - 1) / (warps * R);
    const int64_t blocks = std::min<int64_t>(groups, 8 * processors);
    launch_dependent(small_batch_product<Weight, N, R>,
                 {dim3(unsigned(blocks)), threads, size_t(N * p.staged) * sizeof(float)}, gpu, p);
  };
  rows_per_warp == 2 ? run.template operator()<2>() : run.template operator()<1>();
}

template <class Weight>
void multiply(const SmallBatchProduct<Weight>& p, const Gpu& gpu) {
  require(p.sequences >= 1 && p.sequences <= max_small_batch, "a small batch has 1 to 8 sequences");
  if (p.sequences == 1) return multiply<Weight, 1>(p, gpu);
  if (p.sequences == 2) return multiply<Weight, 2>(p, gpu);
  if (p.sequences <= 4) return multiply<Weight, 4>(p, gpu);
  multiply<Weight, 8>(p, gpu);
}

}  // namespace deltasane::rwkv7
