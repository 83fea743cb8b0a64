// What a tile's 16 tokens do to a state, as operands of products on the tensor cores.
//
// In the names of input_backward.cu, rows of the state are independent:
//
//     SA' = (S0 A~' + V' AK') M'      M = (I - AB)^-1
//     Y'  = S0 R~' + SA' RB' + V' RK'
//     S   = (S0 + SA' B~ + V' K~) diag(W)
//
// and backward, with D = G diag(W), likewise:
//
//     Z'  = (D B~' + dY' RB) M
//     dS0 = D + Z' A~ + dY' R~
//
// so consumer warps, which hold rows of the state, depend only on the producer warps that make
// these operands. Forward two warps share 16 rows: each has half of the columns, and they add up S0
// A~'. Backward a warp has 16 rows.
#pragma once

#include <type_traits>

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/cuda/passes.h"
#include "kernel/delta_rule/cuda/tile.cuh"

namespace deltasane::kernel::cuda {

constexpr int warp_rows = 16, half_columns = head_size / 2;
constexpr int consumer_warps = 2 * head_size / warp_rows, consumer_threads = 32 * consumer_warps;
constexpr int producer_threads = 128;  // that make the next tile's operands

constexpr int state_planes = 3;  // of what is multiplied with the state
// Sums that go into a state. For floats the large products are rounded: truncated, a state's
// largest error is up to three times that of plain arithmetic.
template <class Real>
constexpr LargeProducts state_large_products = LargeProducts::truncated;
template <>
constexpr LargeProducts state_large_products<float> = LargeProducts::rounded;
template <class Real, int small_chains, PlaneOrder order = PlaneOrder::rows>
using StateAccumulator = SplitAccumulator<small_chains, order, state_large_products<Real>>;

// What a block may use: as much as it takes to be fast, or no more than any GPU since Ampere has for
// one block, 99 KiB.
enum class SharedMemory { ample, limited };
constexpr uint64_t limited_shared_bytes = 99 * 1024;
constexpr SharedLayout operand_layout(SharedMemory shared) {
  return shared == SharedMemory::ample ? SharedLayout::padded : SharedLayout::swizzled;
}

// Floats in shared memory of which operand A is made when it is loaded: two thirds of the memory of
// their planes. Eight channels of four tokens, two apart, are in different banks.
struct FloatMatrix {
  alignas(16) float x[tile_tokens][head_size];
  __device__ static int place(int t, int channel) { return channel ^ t / 2 % 4 * 8; }
  // Of 16 channels, from the given one on, and all tokens.
  __device__ FragmentA<state_planes> transposed(int channel) const {
    const int row = channel + threadIdx.x % 32 / 4, token = threadIdx.x % 4 * 2;
    Accumulator all;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = token + 8 * p + i % 2;
        all.c[p][i] = x[t][place(t, row + i / 2 * 8)];
      }
    return FragmentA<state_planes>(all);
  }
};
// Operand A of 16 channels, from the given one on, and all tokens.
__device__ inline void load_values(FragmentA<state_planes>& to, const FloatMatrix& from,
                                   int channel) {
  to = from.transposed(channel);
}
template <int planes, class Matrix>
__device__ void load_values(FragmentA<planes>& to, const Matrix& from, int channel) {
  to.template load<Layout::transposed>(from, channel, 0);
}

template <int read_planes, SharedLayout layout, class Values>
struct TileOperands {
  template <int planes>
  using Vectors = SplitMatrix<planes, tile_tokens, head_size, layout>;
  template <int planes>
  using Square = SplitMatrix<planes, tile_tokens, tile_tokens, layout>;
  Vectors<state_planes> a, b;
  Vectors<read_planes> r;
  Values values;                 // v; backward: dy
  Square<state_planes> inverse;  // M'; backward: M
  Square<read_planes> rb;
  alignas(16) float decay[head_size];
};
template <class Real, SharedLayout layout>
using ExactVectors = SplitMatrix<exact_planes<Real>, tile_tokens, head_size, layout>;
template <class Real, SharedLayout layout = SharedLayout::padded>
struct ForwardOperands : TileOperands<result_planes<Real>, layout, ExactVectors<Real, layout>> {
  SplitMatrix<state_planes, tile_tokens, head_size, layout> k;
  SplitMatrix<state_planes, tile_tokens, tile_tokens, layout> ak;
  SplitMatrix<result_planes<Real>, tile_tokens, tile_tokens, layout> rk;
};
template <class Real, SharedMemory shared>
using BackwardValues =
    std::conditional_t<shared == SharedMemory::limited && exact_planes<Real> == 3, FloatMatrix,
                       ExactVectors<Real, operand_layout(shared)>>;
template <class Real, SharedMemory shared>
struct BackwardOperands
    : TileOperands<state_planes, operand_layout(shared), BackwardValues<Real, shared>> {};

// Decays by token and channel. 8 channels of 4 tokens, two at a time, are in different banks; so
// are every other four channels of a token.
struct DecayMatrix {
  alignas(16) float x[tile_tokens][head_size + 8];
  __device__ float* at(int t, int channel) { return &x[t][channel ^ channel / 32 * 4]; }
  __device__ const float* at(int t, int channel) const { return &x[t][channel ^ channel / 32 * 4]; }
  // Eight channels, the first at a multiple of eight.
  __device__ void read(int t, int channel, float (&to)[8]) const {
    const auto four = [&](int c) { return *reinterpret_cast<const float4*>(at(t, c)); };
    Packed<float>{four(channel), four(channel + 4)}.unpack(to);
  }
};

// Eight channels of a vector, each times its factor, into a row of a matrix.
template <class Matrix, class Real>
__device__ void set_scaled(Matrix& matrix, int row, int channel, const Packed<Real>& vector,
                           const float (&factor)[8]) {
  float x[8];
  vector.unpack(x);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] *= factor[i];
  matrix.set(row, channel, x);
}

// And unscaled, in as many planes as hold them exactly.
template <class Matrix>
__device__ void set_exact(Matrix& matrix, int row, int channel, const Packed<bf16>& vector) {
  static_assert(Matrix::planes == 1);
  *reinterpret_cast<uint4*>(matrix.at(0, row, channel)) = vector.bits;
}
__device__ inline void set_exact(FloatMatrix& matrix, int t, int channel,
                                 const Packed<float>& vector) {
  float x[8];
  vector.unpack(x);
  float* const to = &matrix.x[t][FloatMatrix::place(t, channel)];
  *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
  *reinterpret_cast<float4*>(to + 4) = {x[4], x[5], x[6], x[7]};
}
template <class Matrix>
__device__ void set_exact(Matrix& matrix, int row, int channel, const Packed<float>& vector) {
  float x[8];
  vector.unpack(x);
  matrix.set(row, channel, x);
}

// By a warp: prefetches rows of a tile into L2, or `numbers` of each row. Half of the lanes have
// rows of one tensor, half of another; at: where this lane's row begins, of the token threadIdx.x
// % 16.
template <int numbers = head_size, class Real>
__device__ void prefetch_rows(const Real* one, const Real* other, int64_t at) {
  const Real* const row = (threadIdx.x % 32 < 16 ? one : other) + at;
#pragma unroll
  for (int i = 0; i < numbers; i += 128 / sizeof(Real)) prefetch_l2_line(row + i);
}
__device__ inline void prefetch_decays(const float* w, int64_t at) {
  prefetch_rows<head_size / 2>(w, w + head_size / 2, at);
}

// Reads times writes' with a causal mask: what token t of a tile reads of what token s wrote, if
// s + later <= t.
template <class Products, class Reads, class Writes>
__device__ Accumulator causal_product(const Reads& reads, const Writes& writes, int later) {
  Products products;
  multiply<Layout::row_major, Layout::transposed, head_size>(products, reads, 0, writes, 0);
  Accumulator sums = products.total();
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int t = threadIdx.x % 32 / 4 + i / 2 * 8, s = 8 * p + threadIdx.x % 4 * 2 + i % 2;
      if (s + later > t) sums.c[p][i] = 0;
    }
  return sums;
}

// Column `column` of (I - N)^-1 for the strictly lower part N of `lower`. What four entries add to
// all later ones is added as soon as they are known, so that the dependency chain is short.
__device__ inline void invert_column(const float (&lower)[tile_tokens][tile_tokens + 4], int column,
                                     float (&x)[tile_tokens]) {
#pragma unroll
  for (int t = 0; t < tile_tokens; ++t) x[t] = t == column ? 1.0f : 0.0f;
#pragma unroll
  for (int s = 0; s < tile_tokens; s += 4)
#pragma unroll
    for (int t = s + 1; t < tile_tokens; ++t) {
      const float4 n = *reinterpret_cast<const float4*>(&lower[t][s]);
      x[t] = fmaf(n.x, x[s], x[t]);
      if (s + 1 < t) x[t] = fmaf(n.y, x[s + 1], x[t]);
      if (s + 2 < t) x[t] = fmaf(n.z, x[s + 2], x[t]);
      if (s + 3 < t) x[t] = fmaf(n.w, x[s + 3], x[t]);
    }
}

}  // namespace deltasane::kernel::cuda
