// Fragments of 16 x 16 numbers that a warp holds for mma: the accumulator, and the operands A and B
// as planes of bf16 numbers (split_bf16.cuh). For .cu files.
#pragma once

#include <nv/target>

#include <cstdint>

#include "kernel/cuda/mma.cuh"
#include "kernel/cuda/shared_address.cuh"
#include "kernel/cuda/split_bf16.cuh"

namespace deltasane::kernel::cuda {

// How a fragment is in shared memory: as it is, or as its transpose.
enum class Layout { row_major, transposed };

template <Layout layout>
__device__ void load_matrices(uint32_t (&x)[4], uint32_t at) {
  if constexpr (layout == Layout::row_major)
    ldmatrix(x, at);
  else
    ldmatrix_transposed(x, at);
}
template <Layout layout>
__device__ void load_matrices(uint32_t (&x)[4], const __nv_bfloat16* at) {
  load_matrices<layout>(x, shared_address(at));
}

// The inverse of load_matrices, where there is no stmatrix: lane l gives the address of row l % 8
// of matrix l / 8.
__device__ inline void store_matrices_by_words(uint32_t at, const uint32_t (&x)[4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t row = __shfl_sync(~0u, at, 8 * i + lane / 4);
    store_shared(row + lane % 4 * 4, x[i]);
  }
}
template <Layout layout>
__device__ void store_matrices(void* at, const uint32_t (&x)[4]) {
  const uint32_t own = shared_address(at);
  if constexpr (layout == Layout::row_major) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (stmatrix(own, x);), (store_matrices_by_words(own, x);))
  } else {
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_90, (stmatrix_transposed(own, x);),
        (store_matrices_by_words(own, {movmatrix_transposed(x[0]), movmatrix_transposed(x[1]),
                                       movmatrix_transposed(x[2]), movmatrix_transposed(x[3])});))
  }
}

// Two accumulators of 16 x 8 side by side. Lane l has, of piece p, the rows l / 4 and l / 4 + 8 and
// the columns 8 p + 2 (l % 4) and the next one.
struct Accumulator {
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
  __device__ void add(const Accumulator& other) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[p][i] += other.c[p][i];
  }
};

// Operand A of a product.
template <int planes>
struct FragmentA {
  uint32_t plane[planes][4];
  FragmentA() = default;
  // Of an accumulator: a lane needs no other lane's numbers.
  __device__ explicit FragmentA(const float (&first)[4], const float (&second)[4]) {
    float x[8] = {first[0],  first[1],  first[2],  first[3],
                  second[0], second[1], second[2], second[3]};
#pragma unroll
    for (int p = 0; p < planes; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) plane[p][i] = split_off(x[2 * i], x[2 * i + 1]);
  }
  __device__ explicit FragmentA(const Accumulator& sums) : FragmentA(sums.c[0], sums.c[1]) {}
  __device__ void set(int p, uint4 x) {
    plane[p][0] = x.x, plane[p][1] = x.y, plane[p][2] = x.z, plane[p][3] = x.w;
  }
  // Rows and columns from the given ones on. Transposed: of the transpose of what is in memory.
  template <Layout layout, class Matrix>
  __device__ void load(const Matrix& matrix, int row, int column) {
#pragma unroll
    for (int p = 0; p < planes; ++p)
      load_plane<layout>(p, shared_address(lane_row<layout>(matrix, p, row, column)));
  }
  template <Layout layout>
  __device__ void load_plane(int p, uint32_t at) {  // at: of lane_row()
    load_matrices<layout>(plane[p], at);
  }
  // The row that this lane gives the address of.
  template <Layout layout, class Matrix>
  __device__ static const __nv_bfloat16* lane_row(const Matrix& matrix, int p, int row,
                                                  int column) {
    const int lane = threadIdx.x % 32, piece = lane / 8, line = lane % 8;
    return layout == Layout::row_major
               ? matrix.at(p, row + lane % 16, column + lane / 16 * 8)
               : matrix.at(p, column + piece / 2 * 8 + line, row + piece % 2 * 8);
  }
  __device__ Accumulator to_accumulator() const {
    Accumulator x;
#pragma unroll
    for (int p = planes - 1; p >= 0; --p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float &first = x.c[i / 2][i % 2 * 2], &second = x.c[i / 2][i % 2 * 2 + 1];
        const float of_plane[2] = {__uint_as_float(plane[p][i] << 16),
                                   __uint_as_float(plane[p][i] & 0xffff0000u)};
        first = p == planes - 1 ? of_plane[0] : first + of_plane[0];
        second = p == planes - 1 ? of_plane[1] : second + of_plane[1];
      }
    return x;
  }
  // As many planes as the matrix has.
  template <class Matrix>
  __device__ void store(Matrix& matrix, int row, int column) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < Matrix::planes; ++p)
      store_matrices<Layout::row_major>(matrix.at(p, row + lane % 16, column + lane / 16 * 8),
                                        plane[p]);
  }
};

// Operand B.
template <int planes>
struct FragmentB {
  uint32_t plane[planes][4];
  template <Layout layout, class Matrix>
  __device__ void load(const Matrix& matrix, int row, int column) {
#pragma unroll
    for (int p = 0; p < planes; ++p)
      load_plane<layout>(p, shared_address(lane_row<layout>(matrix, p, row, column)));
  }
  template <Layout layout>
  __device__ void load_plane(int p, uint32_t at) {  // at: of lane_row()
    load_matrices<layout == Layout::row_major ? Layout::transposed : Layout::row_major>(plane[p],
                                                                                        at);
  }
  template <Layout layout, class Matrix>
  __device__ static const __nv_bfloat16* lane_row(const Matrix& matrix, int p, int row,
                                                  int column) {
    const int piece = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
    return layout == Layout::row_major
               ? matrix.at(p, row + piece % 2 * 8 + line, column + piece / 2 * 8)
               : matrix.at(p, column + piece / 2 * 8 + line, row + piece % 2 * 8);
  }
};

// An operand of the same place in several matrices, which lie behind the first one in memory: the
// lane's address is computed once.
template <class Fragment, Layout layout, class Matrix>
class OperandPlace {
 public:
  __device__ OperandPlace(const Matrix& first, int row, int column)
      : at_(hoist(shared_address(Fragment::template lane_row<layout>(first, 0, row, column)))) {}
  // bytes: how far behind. columns16: so many times 16 columns of the matrix to the right.
  __device__ void load(Fragment& x, uint32_t bytes, int columns16 = 0) const {
    const uint32_t at = at_ + bytes + uint32_t(columns16 * Matrix::bytes_of_16_columns);
#pragma unroll
    for (int p = 0; p < int(sizeof(x.plane) / sizeof(x.plane[0])); ++p)
      x.template load_plane<layout>(p, at + p * uint32_t(sizeof(Matrix::plane[0])));
  }

 private:
  uint32_t at_;
};

}  // namespace deltasane::kernel::cuda
