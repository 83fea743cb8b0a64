// A tile of weights, 8 rows, times a vector, by a warp: of each load a lane has 16 bytes of row
// lane / 4. For weight_stream.cuh.
//
// float weights are multiplied by FMAs. bf16 weights are multiplied on the tensor cores, where they
// are fragment B just as the lanes loaded them: which column of the matrix is which row of B does
// not matter as long as A, the vector, has the same order. A number of the vector is the sum of two
// bf16 numbers (see docs/numerics.md). The upper ones are row 0 of A and the lower ones row 8,
// whose accumulators are in the same lane. The other rows of A are zero.
#pragma once

#include "kernel/cuda/fragment.cuh"
#include "model/rwkv7/decode/packed_weights.cuh"

namespace deltasane::rwkv7::one {

inline constexpr int row_lanes = 4, tile_rows = 32 / row_lanes, tile_loads = 2;
template <class Weight>
inline constexpr int load_columns = row_lanes* weights_per_load<Weight>;

__device__ inline float2& two(float* at) { return *reinterpret_cast<float2*>(at); }

// A lane's columns of the vector.
template <class Weight>
struct TileInput;
template <>
struct TileInput<float> {
  float4 x[tile_loads];

  // Two neighbours, the first at an even column.
  __device__ static void put(float* at, float2 both) { two(at) = both; }
  __device__ void load(const float* vector, int lane) {
#pragma unroll
    for (int i = 0; i < tile_loads; ++i)
      x[i] = reinterpret_cast<const float4*>(vector + i * load_columns<float>)[lane % row_lanes];
  }
};
template <>
struct TileInput<bf16> {
  uint32_t a[tile_loads][2][4] = {};  // stays zero in lanes of other rows

  // The upper halves of both columns, then the lower ones: four columns are a lane's registers of
  // A.
  __device__ static void put(float* at, float2 both) {
    const uint32_t upper = split_off(both.x, both.y);
    *reinterpret_cast<uint2*>(at) = {upper, pack_bf16(both.x, both.y)};
  }
  __device__ void load(const float* vector, int lane) {
    if (lane >= row_lanes) return;
#pragma unroll
    for (int i = 0; i < tile_loads; ++i)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float* const from =
            vector + i * load_columns<bf16> + lane * weights_per_load<bf16> + m * 4;
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        a[i][m][0] = four.x, a[i][m][1] = four.y, a[i][m][2] = four.z, a[i][m][3] = four.w;
      }
  }
};

template <class Weight>
struct TileSums;
template <>
struct TileSums<float> {
  float sum = 0;
  __device__ void add(int i, const uint4& weights, const TileInput<float>& input) {
    float w[4];
    unpack(weights, w, float());
    const float4& x = input.x[i];
    sum += fmaf(w[2], x.z, w[0] * x.x) + fmaf(w[3], x.w, w[1] * x.y);
  }
  template <class To>  // to(row, sum)
  __device__ void write(int lane, To to) const {
    float all = sum + __shfl_xor_sync(~0u, sum, 2);
    all += __shfl_xor_sync(~0u, all, 1);
    if (lane % row_lanes == 0) to(lane / row_lanes, all);
  }
};
template <>
struct TileSums<bf16> {
  float c[tile_loads][4] = {};  // one per load: shorter dependency chains
  __device__ void add(int i, const uint4& weights, const TileInput<bf16>& input) {
    mma(c[i], input.a[i][0], weights.x, weights.y);
    mma(c[i], input.a[i][1], weights.z, weights.w);
  }
  template <class To>
  __device__ void write(int lane, To to) const {
    static_assert(tile_loads == 2);
    const float even = (c[0][0] + c[1][0]) + (c[0][2] + c[1][2]);
    const float odd = (c[0][1] + c[1][1]) + (c[0][3] + c[1][3]);
    if (lane < row_lanes) to(2 * lane, even), to(2 * lane + 1, odd);
  }
};

}  // namespace deltasane::rwkv7::one
