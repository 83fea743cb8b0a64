// A tile of weights, 8 rows, times the vectors of up to N sequences, by a warp: of each load a lane
// has 16 bytes of row lane / 4. For weight_stream.cuh.
//
// float weights are multiplied by FMAs. bf16 weights are multiplied on the tensor cores, where they
// are fragment B just as the lanes loaded them: which column of the matrix is which row of B does
// not matter as long as A, the vectors, has the same order. Row i of A is sequence i. A number of up
// to four vectors is the sum of two bf16 numbers (see docs/numerics.md): the upper ones are rows 0 to
// 3, the lower ones rows 8 to 11, whose accumulators are in the same lanes. Of more vectors a number
// is the nearest bf16 number. The other rows of A are zero.
#pragma once

#include "kernel/cuda/fragment.cuh"
#include "model/rwkv7/decode/packed_weights.cuh"

namespace deltasane::rwkv7 {

inline constexpr int row_lanes = 4, tile_rows = 32 / row_lanes, tile_loads = 2;
template <class Weight>
inline constexpr int load_columns = row_lanes* weights_per_load<Weight>;

__device__ inline float2& two(float* at) { return *reinterpret_cast<float2*>(at); }

// Where the vectors are in shared memory: one after the other, each of `stride` words of 4 bytes.
// The padding lets 16-byte loads of neighbouring vectors hit every bank once.
template <class Weight, int N>
struct TileVectors {
  static constexpr bool is_half = sizeof(Weight) == 2 && N > 4;  // two numbers a word
  __host__ __device__ static constexpr int word(int column) { return is_half ? column / 2 : column; }
  __host__ __device__ static constexpr int stride(int columns) {
    return word(columns) + (N == 1 ? 0 : is_half ? 16 : 4);
  }
};

// A lane's columns of the vectors.
template <class Weight, int N>
struct TileInput;
template <int N>
struct TileInput<float, N> {
  float4 x[N][tile_loads];

  // Two neighbours, the first at an even column; at: of the first.
  __device__ static void put(float* at, float2 both) { two(at) = both; }
  __device__ void load(const float* vectors, int stride, int lane) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < tile_loads; ++i)
        x[n][i] = reinterpret_cast<const float4*>(vectors + n * stride +
                                                  i * load_columns<float>)[lane % row_lanes];
  }
};
template <int N>
struct TileInput<bf16, N> {
  static_assert(N <= tile_rows);
  using Vectors = TileVectors<bf16, N>;
  uint32_t a[tile_loads][2][4] = {};  // stays zero in lanes of other rows

  // Four columns are a lane's registers of A: the upper halves of two columns, then their lower ones.
  __device__ static void put(float* at, float2 both) {
    if constexpr (Vectors::is_half) {
      *at = __uint_as_float(pack_bf16(both.x, both.y));
    } else {
      const uint32_t upper = split_off(both.x, both.y);
      *reinterpret_cast<uint2*>(at) = {upper, pack_bf16(both.x, both.y)};
    }
  }
  __device__ void load(const float* vectors, int stride, int lane) {
    const int n = lane / row_lanes, columns = lane % row_lanes * weights_per_load<bf16>;
    if (n >= N) return;
    const float* const own = vectors + Vectors::word(columns) + (N == 1 ? 0 : n * stride);
#pragma unroll
    for (int i = 0; i < tile_loads; ++i) {
      const float* const from = own + Vectors::word(i * load_columns<bf16>);
      if constexpr (Vectors::is_half) {
        const uint4 eight = *reinterpret_cast<const uint4*>(from);
        a[i][0][0] = eight.x, a[i][0][2] = eight.y, a[i][1][0] = eight.z, a[i][1][2] = eight.w;
      } else {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const uint4 four = *reinterpret_cast<const uint4*>(from + m * 4);
          a[i][m][0] = four.x, a[i][m][1] = four.y, a[i][m][2] = four.z, a[i][m][3] = four.w;
        }
      }
    }
  }
};

template <class Weight, int N>
struct TileSums;
template <int N>
struct TileSums<float, N> {
  float sum[N] = {};
  __device__ void add(int i, const uint4& weights, const TileInput<float, N>& input) {
    float w[4];
    unpack(weights, w, float());
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float4& x = input.x[n][i];
      sum[n] += fmaf(w[2], x.z, w[0] * x.x) + fmaf(w[3], x.w, w[1] * x.y);
    }
  }
  template <class To>  // to(sequence, row, sum)
  __device__ void write(int lane, To to) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float all = sum[n] + __shfl_xor_sync(~0u, sum[n], 2);
      all += __shfl_xor_sync(~0u, all, 1);
      if (lane % row_lanes == 0) to(n, lane / row_lanes, all);
    }
  }
};
template <int N>
struct TileSums<bf16, N> {
  float c[tile_loads][4] = {};  // one per load: shorter dependency chains
  __device__ void add(int i, const uint4& weights, const TileInput<bf16, N>& input) {
    mma(c[i], input.a[i][0], weights.x, weights.y);
    mma(c[i], input.a[i][1], weights.z, weights.w);
  }
  template <class To>
  __device__ void write(int lane, To to) const {
    static_assert(tile_loads == 2);
    float even = c[0][0] + c[1][0], odd = c[0][1] + c[1][1];
    if constexpr (!TileVectors<bf16, N>::is_half)
      even += c[0][2] + c[1][2], odd += c[0][3] + c[1][3];
    const int n = lane / row_lanes, row = 2 * (lane % row_lanes);
    if (n < N) to(n, row, even), to(n, row + 1, odd);
  }
};

}  // namespace deltasane::rwkv7
