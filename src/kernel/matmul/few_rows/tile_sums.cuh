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

// An input has `planes` of the `slots` rows of sums. Staged: the inputs of a window in shared memory, slots too.
// Inputs: a warp's columns of them, in registers where they are few, as all tiles of a narrow matrix read
// the same.
template <class Weight, int N>
struct TileSums;

// Sums of a tile in shared memory, (slots, few_warps, tile_rows).
__device__ inline void store_sum(float& place, float sum, bool add) { place = add ? place + sum : sum; }

template <int N>
struct TileSums<bf16, N> {
  static constexpr int planes = exact_planes<float>, slots = planes * N;
  static constexpr int halves = (slots + 7) / 8, products = (halves + 1) / 2;
  // Sums that do not wait for each other.
  static constexpr int chains = products == 1 ? piece_loads : 1;

  // In the inputs' type, from row to row: those of neighbouring rows are in different banks.
  static constexpr int padding = 32;
  using Staged = bf16;
  __device__ static void put(bf16* staged, int step, int n, int column, float4 x) {
#pragma unroll
    for (int plane = 0; plane < planes; ++plane) {
      const uint32_t first = split_off(x.x, x.y), second = split_off(x.z, x.w);
      *reinterpret_cast<uint2*>(staged + (n * planes + plane) * step + column) =
          make_uint2(first, second);
    }
  }

  struct Inputs {
    static constexpr bool kept = halves == 1;
    uint4 x[kept ? piece_loads : 1];
    const bf16* shared;
    int step;
    __device__ void set(const bf16* staged, int row_step, int column) {
      const int lane = int(threadIdx.x) % 32;
      shared = staged + column + lane % 4 * weights_per_load<bf16>, step = row_step;
      if constexpr (kept)
#pragma unroll
        for (int u = 0; u < piece_loads; ++u) x[u] = load(u, 0);
    }
    // Rows beyond the last one are not used.
    __device__ uint4 load(int u, int half) const {
      const int row = min(half * 8 + int(threadIdx.x) % 32 / 4, slots - 1);
      return *reinterpret_cast<const uint4*>(shared + row * step + u * load_columns<bf16>);
    }
    __device__ uint4 get(int u, int half) const {
      if (half >= halves) return make_uint4(0, 0, 0, 0);
      if constexpr (kept)
        return x[u];
      else
        return load(u, half);
    }
  };
  float c[chains][products][4] = {};

  __device__ void multiply(const Inputs& inputs, int u, const uint4& weights) {
#pragma unroll
    for (int i = 0; i < products; ++i) {
      const uint4 upper = inputs.get(u, 2 * i), lower = inputs.get(u, 2 * i + 1);
      auto& sum = c[u % chains][i];
      mma(sum, {upper.x, lower.x, upper.y, lower.y}, weights.x, weights.y);
      mma(sum, {upper.z, lower.z, upper.w, lower.w}, weights.z, weights.w);
    }
  }
  // Where this lane's sums of a tile are.
  __device__ static int place() {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    return (lane / 4 * few_warps + warp) * tile_rows + lane % 4 * 2;
  }
  __device__ void store(float* to, bool add) const {
#pragma unroll
    for (int half = 0; half < halves; ++half)
      if (half * 8 + int(threadIdx.x) % 32 / 4 < slots)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          store_sum(to[half * 8 * few_warps * tile_rows + i], sum(half, i), add);
  }
  __device__ float sum(int half, int i) const {
    float all = 0;
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) all += c[chain][half / 2][half % 2 * 2 + i];
    return all;
  }
};

template <int N>
struct TileSums<float, N> {
  static constexpr int planes = 1, slots = N;

  static constexpr int padding = 0;
  using Staged = float;
  __device__ static void put(float* staged, int step, int n, int column, float4 x) {
    *reinterpret_cast<float4*>(staged + n * step + column) = x;
  }

  struct Inputs {
    static constexpr bool kept = N == 1;
    float4 x[kept ? piece_loads : 1];
    const float* shared;
    int step;
    __device__ void set(const float* staged, int row_step, int column) {
      shared = staged + column + threadIdx.x % 4 * 4, step = row_step;
      if constexpr (kept)
#pragma unroll
        for (int u = 0; u < piece_loads; ++u) x[u] = load(u, 0);
    }
    __device__ float4 load(int u, int n) const {
      return *reinterpret_cast<const float4*>(shared + n * step + u * load_columns<float>);
    }
    __device__ float4 get(int u, int n) const {
      if constexpr (kept)
        return x[u];
      else
        return load(u, n);
    }
  };
  float sum[N] = {};

  __device__ void multiply(const Inputs& inputs, int u, const uint4& weights) {
    float w[4];
    unpack(weights, w, float());
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float4 x = inputs.get(u, n);
      sum[n] += w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
    }
  }
  __device__ static int place() {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    return warp * tile_rows + lane / 4;
  }
  __device__ void store(float* to, bool add) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float all = sum[n] + __shfl_xor_sync(~0u, sum[n], 1);
      all += __shfl_xor_sync(~0u, all, 2);
      if (threadIdx.x % 4 == 0) store_sum(to[n * few_warps * tile_rows], all, add);
    }
  }
};

}  // namespace deltasane::kernel::cuda
