// The product of a matrix with up to eight rows of inputs: every weight is read once, and what counts
// is that its loads never pause. A warp has some rows of the matrix, a block the inputs in shared
// memory. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel/cuda/packed_weights.cuh"
#include "kernel/cuda/streaming_load.cuh"
#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int most_few_rows = 8;
inline constexpr int few_threads = 256, few_warps = few_threads / 32;
inline constexpr int loads_in_flight = 8;       // of 16 bytes, of a thread
inline constexpr int staged_floats = 16 << 10;  // of inputs in shared memory

template <class Weight>
struct FewRowsMatrix {
  const Weight* data = nullptr;
  int64_t rows = 0, columns = 0;  // rows of weights, 16 bytes long or a multiple of that
  int64_t staged = 0;             // columns of the inputs in shared memory at a time
};

template <class Weight, int R>
inline constexpr int tile_columns = loads_in_flight / R * 32 * weights_per_load<Weight>;

// A warp's weights in registers: tile_columns of R rows.
template <class Weight, int R>
struct RegisterTile {
  uint4 raw[R][loads_in_flight / R];

  // The first row of the warp in a group of rows, which is a block's.
  __device__ static int64_t row_of(int64_t group) {
    return (group * few_warps + int64_t(threadIdx.x) / 32) * R;
  }
  __device__ void load(const FewRowsMatrix<Weight>& m, int64_t row, int64_t from) {
    const int64_t mine = from + int64_t(threadIdx.x % 32) * weights_per_load<Weight>;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Weight* const weights = m.data + min(row + r, m.rows - 1) * m.columns;
#pragma unroll
      for (int u = 0; u < loads_in_flight / R; ++u) {
        const int64_t c = mine + u * 32 * weights_per_load<Weight>;
        raw[r][u] = c < m.columns ? load_once(weights + c) : make_uint4(0, 0, 0, 0);
      }
    }
  }
  template <int N>
  __device__ void multiply(const float* input, int64_t staged, float (&sum)[R][N]) const {
    constexpr int V = weights_per_load<Weight>;
#pragma unroll
    for (int u = 0; u < loads_in_flight / R; ++u) {
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

// The columns [from, from + m.staged) of the inputs to shared memory, zero beyond the last column.
// value(n, column) gives that of input n.
template <class Weight, int N, class Value>
__device__ void stage_columns(const FewRowsMatrix<Weight>& m, int64_t from, float* input,
                              Value&& value) {
#pragma unroll
  for (int n = 0; n < N; ++n)
    for (int64_t i = threadIdx.x; i < m.staged; i += few_threads)
      input[n * m.staged + swizzled<Weight>(int(i))] =
          from + i < m.columns ? value(n, from + i) : 0.0f;
}

// All rows, by the first `blocks` blocks. tile: loaded for RegisterTile::row_of(blockIdx.x) and column 0.
// segment_of(first row of a group): rows with one input; stage(from, segment) fills `input` with
// that of the columns from there on; store(n, row, segment, sum) is called by one lane for each.
template <class Weight, int N, int R, class SegmentOf, class Stage, class Store>
__device__ void multiply_few_rows(const FewRowsMatrix<Weight>& m, RegisterTile<Weight, R>& tile,
                                  const float* input, int64_t blocks, SegmentOf&& segment_of,
                                  Stage&& stage, Store&& store) {
  constexpr int64_t columns_at_once = tile_columns<Weight, R>;
  const int lane = int(threadIdx.x) % 32;
  const int64_t groups = (m.rows + few_warps * R - 1) / (few_warps * R);
  int64_t staged_from = -1;
  int staged_segment = -1;
  for (int64_t group = blockIdx.x; group < groups; group += blocks) {
    const int segment = segment_of(group * few_warps * R);
    float sum[R][N] = {};
    for (int64_t from = 0; from < m.columns; from += columns_at_once) {
      const int64_t stage_from = from / m.staged * m.staged;
      if (stage_from != staged_from || segment != staged_segment) {
        __syncthreads();
        stage(stage_from, segment);
        __syncthreads();
        staged_from = stage_from, staged_segment = segment;
      }
      RegisterTile<Weight, R> next = tile;
      if (from + columns_at_once < m.columns)
        next.load(m, tile.row_of(group), from + columns_at_once);
      else if (group + blocks < groups)
        next.load(m, tile.row_of(group + blocks), 0);
      tile.template multiply<N>(input + (from - stage_from), m.staged, sum);
      tile = next;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float value = warp_sum(sum[r][n]);
        const int64_t row = tile.row_of(group) + r;
        if (lane == r * N + n && row < m.rows) store(n, row, segment, value);
      }
  }
}

// Calls run.operator()<R>(blocks), with m.staged set, for R rows of a warp at a time, and at most `most`
// blocks of each processor. Matrices of many rows: two, so that an input read from shared memory is used
// twice.
template <class Weight, int N, class Run>
void with_rows_per_warp(FewRowsMatrix<Weight>& m, int64_t processors, int64_t most,
                        const Run& run) {
  const auto set = [&]<int R>() {
    constexpr int64_t at_once = tile_columns<Weight, R>;
    const int64_t all = (m.columns + at_once - 1) / at_once * at_once;
    m.staged = std::min<int64_t>(all, staged_floats / N / at_once * at_once);
    const int64_t groups = (m.rows + few_warps * R - 1) / (few_warps * R);
    run.template operator()<R>(unsigned(std::min<int64_t>(groups, most * processors)));
  };
  m.rows >= 24 * processors ? set.template operator()<2>() : set.template operator()<1>();
}

// Calls run.operator()<N>() for up to N inputs.
template <class Run>
void with_few(int64_t inputs, const Run& run) {
  require(inputs >= 1 && inputs <= most_few_rows, "a product of few rows has 1 to 8");
  if (inputs == 1) return run.template operator()<1>();
  if (inputs == 2) return run.template operator()<2>();
  if (inputs <= 4) return run.template operator()<4>();
  run.template operator()<most_few_rows>();
}

}  // namespace deltasane::kernel::cuda
