// Products of floats on the tensor cores: every float is the sum of two or three bf16 numbers
// ("planes"), and a product of sums is the sum of the products that matter. Two planes keep 16 bits
// of a factor and leave an error of 2^-16, three keep all 24.
#pragma once

#include <cuda_bf16.h>
#include <nv/target>

#include <cstdint>

#include "kernel/delta_rule/cuda_ptx.cuh"

namespace deltasane::kernel::cuda {

// Planes that hold a Real as it is.
template <class Real>
constexpr int exact_planes = 1;
template <>
constexpr int exact_planes<float> = 3;

// The bf16 numbers nearest to x and y, x in the lower half.
__device__ inline uint32_t packed(float x, float y) {
  const __nv_bfloat162 near = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const uint32_t&>(near);
}
// Likewise; what they leave of both stays in x and y.
__device__ inline uint32_t split_off(float& x, float& y) {
  const uint32_t bits = packed(x, y);
  x -= __uint_as_float(bits << 16), y -= __uint_as_float(bits & 0xffff0000u);
  return bits;
}

// A matrix in shared memory, so that 16-byte pieces of 8 neighbouring rows lie in different banks:
// rows have a gap behind them, or, which takes less memory and more arithmetic, their pieces in
// another order each.
enum class Rows { apart, woven };
template <int planes_, int rows, int columns, Rows lie = Rows::apart>
struct SplitMatrix {
  static constexpr int planes = planes_, stride = lie == Rows::woven ? columns : columns + 8;
  alignas(16) __nv_bfloat16 plane[planes][rows][stride];

  // Where a column lies in its row. Woven: as many rows as all banks hold keep the same order.
  __device__ static int place(int row, int column) {
    constexpr int pieces = columns / 8, rows_in_banks = 8 / pieces;
    return lie == Rows::woven ? column ^ row / rows_in_banks % pieces * 8 : column;
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

enum class Lies { straight, transposed };

template <Lies lies>
__device__ void load_matrices(uint32_t (&x)[4], const __nv_bfloat16* at) {
  if constexpr (lies == Lies::straight)
    load_matrices_at_once(x, shared_address(at));
  else
    load_transposes_at_once(x, shared_address(at));
}

// Four times 8 x 8 numbers of a warp into shared memory, where load_matrices would find them: lane
// l says where row l % 8 of matrix l / 8 goes.
__device__ inline void store_matrices_by_words(uint32_t at, const uint32_t (&x)[4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t row = __shfl_sync(~0u, at, 8 * i + lane / 4);
    store_word(row + lane % 4 * 4, x[i]);
  }
}
template <Lies lies>
__device__ void store_matrices(void* at, const uint32_t (&x)[4]) {
  const uint32_t own = shared_address(at);
  if constexpr (lies == Lies::straight) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (store_matrices_at_once(own, x);),
                      (store_matrices_by_words(own, x);))
  } else {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (store_transposes_at_once(own, x);),
                      (store_matrices_by_words(own, {transpose(x[0]), transpose(x[1]),
                                                     transpose(x[2]), transpose(x[3])});))
  }
}

// 16 x 16 sums of one warp: two 16 x 8 pieces side by side. Lane l has, of piece p, the rows l / 4
// and l / 4 + 8 and the columns 8 p + 2 (l % 4) and the next one.
struct Sums {
  float c[2][4] = {};
  template <class Use>  // use(row, column, value, value of the next column)
  __device__ void each(Use&& use) const {
    const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      use(row, 8 * p + column, c[p][0], c[p][1]);
      use(row + 8, 8 * p + column, c[p][2], c[p][3]);
    }
  }
  __device__ void add(const Sums& other) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[p][i] += other.c[p][i];
  }
};

// 16 x 16 numbers of a warp on their way into a product: its left factor, or its right one.
template <int planes>
struct Left {
  uint32_t of[planes][4];
  Left() = default;
  // Sums of a warp as they are: no other lane's are needed.
  __device__ explicit Left(const float (&first)[4], const float (&second)[4]) {
    float x[8] = {first[0],  first[1],  first[2],  first[3],
                  second[0], second[1], second[2], second[3]};
#pragma unroll
    for (int p = 0; p < planes; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) of[p][i] = split_off(x[2 * i], x[2 * i + 1]);
  }
  __device__ explicit Left(const Sums& sums) : Left(sums.c[0], sums.c[1]) {}
  __device__ void set(int p, uint4 x) {
    of[p][0] = x.x, of[p][1] = x.y, of[p][2] = x.z, of[p][3] = x.w;
  }
  // Rows and columns from the given ones on. Transposed: of the transpose of what lies in memory.
  template <Lies lies, class Matrix>
  __device__ void load(const Matrix& matrix, int row, int column) {
    const int lane = threadIdx.x % 32, piece = lane / 8, line = lane % 8;
#pragma unroll
    for (int p = 0; p < planes; ++p)
      load_matrices<lies>(of[p],
                          lies == Lies::straight
                              ? matrix.at(p, row + lane % 16, column + lane / 16 * 8)
                              : matrix.at(p, column + piece / 2 * 8 + line, row + piece % 2 * 8));
  }
  // As they were.
  __device__ Sums sums() const {
    Sums x;
#pragma unroll
    for (int p = planes - 1; p >= 0; --p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x.c[i / 2][i % 2 * 2] += __uint_as_float(of[p][i] << 16);
        x.c[i / 2][i % 2 * 2 + 1] += __uint_as_float(of[p][i] & 0xffff0000u);
      }
    return x;
  }
  // As many planes as the matrix has.
  template <class Matrix>
  __device__ void store(Matrix& matrix, int row, int column) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < Matrix::planes; ++p)
      store_matrices<Lies::straight>(matrix.at(p, row + lane % 16, column + lane / 16 * 8), of[p]);
  }
};
template <int planes>
struct Right {
  uint32_t of[planes][4];
  template <Lies lies, class Matrix>
  __device__ void load(const Matrix& matrix, int row, int column) {
    const int lane = threadIdx.x % 32, piece = lane / 8, line = lane % 8;
#pragma unroll
    for (int p = 0; p < planes; ++p)
      load_matrices<lies == Lies::straight ? Lies::transposed : Lies::straight>(
          of[p], lies == Lies::straight
                     ? matrix.at(p, row + piece % 2 * 8 + line, column + piece / 2 * 8)
                     : matrix.at(p, column + piece / 2 * 8 + line, row + piece % 2 * 8));
  }
};

// Sums of products. Large and small products are added up apart: shorter chains, and small ones are
// not lost. `apart`: so many chains of small ones, 1 or 2; or 0, which takes half of the registers,
// where the planes leave more out than that loses. By diagonals the two chains of small ones take
// turns, so that a product waits less for the one before it: better where few warps have nothing
// else to do (cuda_chunks.cu, 10 %), and no better where others fill the time.
enum class Order { rows, diagonals };
// The tensor cores cut off what a sum has no room for. Rounded: large products are summed up from
// zero each time, and an addition that rounds adds them to the others.
enum class Large { cut, rounded };
template <int apart, Order order = Order::rows, Large way = Large::cut>
struct SplitSums {
  Sums large, small[apart ? apart : 1];
  // kept: of the factors' planes p and q, those with p + q < kept.
  template <int kept, int left_planes, int right_planes>
  __device__ void add_main(const Left<left_planes>& x, const Right<right_planes>& y) {
    if constexpr (order == Order::diagonals)
      add_diagonals<kept>(x, y);
    else
      add_rows<kept>(x, y);
  }
  template <int kept, int left_planes, int right_planes>
  __device__ void add_rows(const Left<left_planes>& x, const Right<right_planes>& y) {
#pragma unroll
    for (int p = 0; p < left_planes; ++p)
#pragma unroll
      for (int q = 0; q < right_planes; ++q)
        if (p + q < kept) {
          if (p + q == 0)
            add_large(x, y);
          else
            add_to(apart == 0 ? large : small[p > q && apart > 1], x.of[p], y.of[q]);
        }
  }
  template <int kept, int left_planes, int right_planes>
  __device__ void add_diagonals(const Left<left_planes>& x, const Right<right_planes>& y) {
#pragma unroll
    for (int both = 0; both < kept; ++both)
#pragma unroll
      for (int p = 0; p <= both; ++p)
        if (const int q = both - p; p < left_planes && q < right_planes) {
          if (both == 0)
            add_large(x, y);
          else
            add_to(apart == 0 ? large : small[p % 2 && apart > 1], x.of[p], y.of[q]);
        }
  }
  template <int left_planes, int right_planes>
  __device__ void add_large(const Left<left_planes>& x, const Right<right_planes>& y) {
    if constexpr (way == Large::cut) {
      add_to(large, x.of[0], y.of[0]);
    } else {
      Sums these;
      add_to(these, x.of[0], y.of[0]);
      large.add(these);
    }
  }
  __device__ static void add_to(Sums& sums, const uint32_t (&x)[4], const uint32_t (&y)[4]) {
    multiply_add(sums.c[0], x, y[0], y[1]);
    multiply_add(sums.c[1], x, y[2], y[3]);
  }
  template <int left_planes, int right_planes>
  __device__ void add(const Left<left_planes>& x, const Right<right_planes>& y) {
    add_main<(left_planes > right_planes ? left_planes : right_planes)>(x, y);
  }
  __device__ Sums total() const {
    if constexpr (apart == 0) return large;
    Sums sums;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float rest = small[0].c[p][i];
        if constexpr (apart > 1) rest += small[1].c[p][i];
        sums.c[p][i] = large.c[p][i] + rest;
      }
    return sums;
  }
};

// sums += a b for a (16, depth) from a's row `row` on and b (depth, 16) from b's column `column`
// on; transposed: of the transpose of what lies in memory.
template <Lies a_lies, Lies b_lies, int depth, class ProductSums, class A, class B>
__device__ void multiply(ProductSums& sums, const A& a, int row, const B& b, int column) {
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    Left<A::planes> x;
    Right<B::planes> y;
    x.template load<a_lies>(a, row, k);
    y.template load<b_lies>(b, k, column);
    sums.add(x, y);
  }
}

}  // namespace deltasane::kernel::cuda
