// A warp's part of the sums of one tile, eight rows of weights, with up to N rows of inputs. Of bf16 weights
// they are products on the tensor cores: each input is exactly the sum of three bf16 numbers, and these
// are rows of the other operand. A lane has the same columns of both, so that its weights need no other
// order than that of memory. Of float weights a lane has a row, and adds up its columns. For .cu files.
#pragma once

#include "kernel/cuda/mma.cuh"
#include "kernel/cuda/split_bf16.cuh"
#include "kernel/matmul/few_rows/few_rows.cuh"
#include "kernel/matmul/few_rows/tile_plan.cuh"

namespace deltasane::kernel::cuda {

// An input is `planes` rows of the other operand. Staged: their type in shared memory. The sums of a tile in
// shared memory are (N, few_warps, tile_rows). Inputs: a warp's columns of them, in registers.
template <class Weight, int N>
struct TileSums;

__device__ inline void store_sum(float& place, float sum, bool add) {
  place = add ? place + sum : sum;
}

// The 16 rows of a product's other operand are eight inputs' planes with the columns of a pair's first load and
// again those with the columns of its second. Even rows of weights find their sums in the upper half of the
// product with load 2 i and in the lower half of that with load 2 i + 1, odd ones in the others.
template <int N>
struct TileSums<bf16, N> {
  static constexpr int planes = exact_planes<float>, rows = planes * N;
  static_assert(rows <= 8);

  // In the inputs' type, from row to row: those of neighbouring rows are in different banks.
  static constexpr int padding = 32;
  using Staged = bf16;
  // Each two columns of the first load of a pair and those of the second are neighbours.
  __device__ static void put(bf16* staged, int step, int n, int column, float4 x) {
    constexpr int load = load_columns<bf16>;
    bf16* const at = staged + n * planes * step + column / (2 * load) * (2 * load) +
                     column % load * 2 + column / load % 2 * 2;
#pragma unroll
    for (int plane = 0; plane < planes; ++plane) {
      *reinterpret_cast<uint32_t*>(at + plane * step) = split_off(x.x, x.y);
      *reinterpret_cast<uint32_t*>(at + plane * step + 4) = split_off(x.z, x.w);
    }
  }

  // Of the loads 2 i and 2 i + 1 the first and the second four columns.
  struct Inputs {
    uint32_t x[piece_loads][4];
    // Rows beyond the last one are not used.
    __device__ void set(const bf16* staged, int step, int column) {
      const int lane = int(threadIdx.x) % 32;
      const bf16* const at =
          staged + column + lane % 4 * 2 * weights_per_load<bf16> + min(lane / 4, rows - 1) * step;
#pragma unroll
      for (int u = 0; u < piece_loads; ++u) {
        const uint4 both = *reinterpret_cast<const uint4*>(at + u / 2 * 2 * load_columns<bf16> +
                                                           u % 2 * weights_per_load<bf16>);
        x[u][0] = both.x, x[u][1] = both.y, x[u][2] = both.z, x[u][3] = both.w;
      }
    }
  };
  float c[2][4] = {};  // of the pairs' first loads, and of their second ones

  __device__ void multiply(const Inputs& inputs, const uint4 (&weights)[piece_loads]) {
#pragma unroll
    for (int u = 0; u < piece_loads; ++u)
      mma(c[u % 2], inputs.x[u / 2 * 2], weights[u].x, weights[u].y);
#pragma unroll
    for (int u = 0; u < piece_loads; ++u)
      mma(c[u % 2], inputs.x[u / 2 * 2 + 1], weights[u].z, weights[u].w);
  }
  // Where this lane's sums of a tile are.
  __device__ static int place() {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    return (lane / 4 / planes * few_warps + warp) * tile_rows + lane % 4 * 2;
  }
  __device__ float sum(int odd) const { return odd ? c[0][3] + c[1][1] : c[0][0] + c[1][2]; }
  // Those of `count` tiles, `step` numbers apart. An input's planes are added up.
  template <int most>
  __device__ static void store(const TileSums (&sums)[most], int count, float* to, int step,
                               bool add) {
    float own[most][2], of_plane[most][2][planes];
#pragma unroll
    for (int i = 0; i < 2 * most; ++i) own[i / 2][i % 2] = sums[i / 2].sum(i % 2);
#pragma unroll
    for (int i = 0; i < 2 * most; ++i)
#pragma unroll
      for (int plane = 1; plane < planes; ++plane)
        of_plane[i / 2][i % 2][plane] =
            __shfl_down_sync(~0u, own[i / 2][i % 2], unsigned(4 * plane));
    const int row = int(threadIdx.x) % 32 / 4;
    if (row % planes != 0 || row >= rows) return;
#pragma unroll
    for (int i = 0; i < 2 * most; ++i) {
      if (i / 2 >= count) break;
      float all = own[i / 2][i % 2];
#pragma unroll
      for (int plane = 1; plane < planes; ++plane) all += of_plane[i / 2][i % 2][plane];
      store_sum(to[i / 2 * step + i % 2], all, add);
    }
  }
};

template <int N>
struct TileSums<float, N> {
  static constexpr int rows = N;

  static constexpr int padding = 0;
  using Staged = float;
  __device__ static void put(float* staged, int step, int n, int column, float4 x) {
    *reinterpret_cast<float4*>(staged + n * step + column) = x;
  }

  struct Inputs {
    float4 x[piece_loads][N];
    __device__ void set(const float* staged, int step, int column) {
#pragma unroll
      for (int u = 0; u < piece_loads; ++u)
#pragma unroll
        for (int n = 0; n < N; ++n)
          x[u][n] = *reinterpret_cast<const float4*>(staged + n * step + column +
                                                     int(threadIdx.x) % 4 * 4 +
                                                     exchanged(u) * load_columns<float>);
    }
  };
  float sum[N] = {};

  __device__ void multiply(const Inputs& inputs, const uint4 (&weights)[piece_loads]) {
#pragma unroll
    for (int u = 0; u < piece_loads; ++u) {
      float w[4];
      unpack(weights[u], w, float());
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float4 x = inputs.x[u][n];
        sum[n] += w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
      }
    }
  }
  __device__ static int place() {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    return warp * tile_rows + lane / 4;
  }
  template <int most>
  __device__ static void store(const TileSums (&sums)[most], int count, float* to, int step,
                               bool add) {
#pragma unroll
    for (int i = 0; i < most; ++i)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        float all = sums[i].sum[n] + __shfl_xor_sync(~0u, sums[i].sum[n], 1);
        all += __shfl_xor_sync(~0u, all, 2);
        if (threadIdx.x % 4 == 0 && i < count)
          store_sum(to[i * step + n * few_warps * tile_rows], all, add);
      }
  }
};

}  // namespace deltasane::kernel::cuda
