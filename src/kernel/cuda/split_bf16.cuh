// Floats as sums of two or three bf16 numbers ("planes"), so that they can be multiplied on the
// tensor cores. Two planes keep 16 bits of a factor and leave an error of 2^-16, three keep all 24.
// For .cu files.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace deltasane::kernel::cuda {

// Planes that hold a Real exactly.
template <class Real>
constexpr int exact_planes = 1;
template <>
constexpr int exact_planes<float> = 3;

// The bf16 numbers nearest to x and y, x in the lower half.
__device__ inline uint32_t pack_bf16(float x, float y) {
  const __nv_bfloat162 nearest = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const uint32_t&>(nearest);
}
// Likewise; what they leave of both stays in x and y.
__device__ inline uint32_t split_off(float& x, float& y) {
  const uint32_t bits = pack_bf16(x, y);
  x -= __uint_as_float(bits << 16), y -= __uint_as_float(bits & 0xffff0000u);
  return bits;
}

// A matrix in shared memory whose ldmatrix reads have no bank conflicts: 16-byte pieces of 8
// neighbouring rows are in different banks. Rows are padded by 16 bytes; or their pieces are
// swizzled, which takes less memory and more arithmetic.
enum class SharedLayout { padded, swizzled };
template <int planes_, int rows, int columns, SharedLayout layout = SharedLayout::padded>
struct SplitMatrix {
  static constexpr int planes = planes_,
                       stride = layout == SharedLayout::swizzled ? columns : columns + 8;
  alignas(16) __nv_bfloat16 plane[planes][rows][stride];
  static constexpr int bytes_of_16_columns = 16 * sizeof(__nv_bfloat16);  // padded

  // Where a column is in its row. Swizzled: as many rows as all banks hold keep the same order.
  __device__ static int place(int row, int column) {
    constexpr int pieces = columns / 8, rows_in_banks = 8 / pieces;
    return layout == SharedLayout::swizzled ? column ^ row / rows_in_banks % pieces * 8 : column;
  }
  __device__ __nv_bfloat16* at(int p, int row, int column) {
    return &plane[p][row][place(row, column)];
  }
  __device__ const __nv_bfloat16* at(int p, int row, int column) const {
    return &plane[p][row][place(row, column)];
  }
  __device__ void set(int row, int column, float x) {
#pragma unroll
    for (int p = 0; p < planes; ++p) {
      const __nv_bfloat16 part = __float2bfloat16_rn(x);
      *at(p, row, column) = part;
      x -= __bfloat162float(part);
    }
  }
  template <int count>  // 2, 4 or 8 neighbours in a row, the first at a multiple of count
  __device__ void set(int row, int column, const float (&value)[count]) {
    float x[count];
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = value[i];
#pragma unroll
    for (int p = 0; p < planes; ++p) {
      uint32_t pair[count / 2];
#pragma unroll
      for (int i = 0; i < count; i += 2) pair[i / 2] = split_off(x[i], x[i + 1]);
      __nv_bfloat16* const to = at(p, row, column);
      if constexpr (count == 8)
        *reinterpret_cast<uint4*>(to) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
      else if constexpr (count == 4)
        *reinterpret_cast<uint2*>(to) = make_uint2(pair[0], pair[1]);
      else
        *reinterpret_cast<uint32_t*>(to) = pair[0];
    }
  }
};

}  // namespace deltasane::kernel::cuda
