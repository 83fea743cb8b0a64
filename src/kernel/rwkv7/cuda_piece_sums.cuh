// A piece of weights, 8 rows, times a vector, by a warp: of each load a lane has 16 bytes of row
// lane / 4. How sums are made depends on the type of the weights. For cuda_weight_stream.cuh.
//
// bf16 weights are multiplied on the tensor cores, where they are the right factor just as they lie
// in the lanes: which column of the matrix is which row of that factor does not matter as long as
// the left factor, the vector, has the same order. A number of the vector is the sum of two bf16
// numbers (see docs/numerics.md). The upper ones are row 0 of the left factor and the lower ones
// row 8: a lane that has sums of one has those of the other. Its other rows are zero.
#pragma once

#include "kernel/delta_rule/cuda_split.cuh"
#include "kernel/rwkv7/cuda_decode_parts.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int row_lanes = 4, piece_rows = 32 / row_lanes, piece_loads = 2;
template <class Weight>
inline constexpr int load_columns = row_lanes* per_load<Weight>;

__device__ inline float2& two(float* at) { return *reinterpret_cast<float2*>(at); }

// A lane's columns of the vector.
template <class Weight>
struct PieceInput;
template <>
struct PieceInput<float> {
  float4 x[piece_loads];

  // Two neighbours, the first at an even column.
  __device__ static void put(float* at, float2 both) { two(at) = both; }
  __device__ void load(const float* vector, int lane) {
#pragma unroll
    for (int i = 0; i < piece_loads; ++i)
      x[i] = reinterpret_cast<const float4*>(vector + i * load_columns<float>)[lane % row_lanes];
  }
};
template <>
struct PieceInput<bf16> {
  uint32_t a[piece_loads][2][4] = {};  // stays zero in lanes of other rows

  // The upper numbers of both columns, then the lower ones: four columns are what a lane needs for
  // a product.
  __device__ static void put(float* at, float2 both) {
    const uint32_t upper = split_off(both.x, both.y);
    *reinterpret_cast<uint2*>(at) = {upper, packed(both.x, both.y)};
  }
  __device__ void load(const float* vector, int lane) {
    if (lane >= row_lanes) return;
#pragma unroll
    for (int i = 0; i < piece_loads; ++i)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float* const from = vector + i * load_columns<bf16> + lane * per_load<bf16> + m * 4;
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        a[i][m][0] = four.x, a[i][m][1] = four.y, a[i][m][2] = four.z, a[i][m][3] = four.w;
      }
  }
};

template <class Weight>
struct PieceSums;
template <>
struct PieceSums<float> {
  float sum = 0;
  __device__ void add(int i, const uint4& weights, const PieceInput<float>& input) {
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
struct PieceSums<bf16> {
  float c[piece_loads][4] = {};  // by loads: shorter chains
  __device__ void add(int i, const uint4& weights, const PieceInput<bf16>& input) {
    multiply_add(c[i], input.a[i][0], weights.x, weights.y);
    multiply_add(c[i], input.a[i][1], weights.z, weights.w);
  }
  template <class To>
  __device__ void write(int lane, To to) const {
    static_assert(piece_loads == 2);
    const float even = (c[0][0] + c[1][0]) + (c[0][2] + c[1][2]);
    const float odd = (c[0][1] + c[1][1]) + (c[0][3] + c[1][3]);
    if (lane < row_lanes) to(2 * lane, even), to(2 * lane + 1, odd);
  }
};

}  // namespace deltasane::kernel::cuda
