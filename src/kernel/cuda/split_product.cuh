// Products of floats on the tensor cores: with both factors as sums of planes (split_bf16.cuh), a
// product is the sum of those products of planes that matter. For .cu files.
#pragma once

#include "kernel/cuda/fragment.cuh"

namespace deltasane::kernel::cuda {

// In which order products of planes are accumulated. By diagonals the two chains of small products
// alternate, so that one waits less for the one before it: 10 % faster where few warps have nothing
// else to do (delta_rule/cuda_chunks.cu), and no faster where others fill the time.
enum class PlaneOrder { rows, diagonals };
// The tensor cores truncate what a sum has no bits for. Rounded: large products are summed from
// zero each time, and added to the others by an addition that rounds.
enum class LargeProducts { truncated, rounded };

// Large and small products have accumulators of their own: chains are shorter, and small products
// are not lost. small_chains: 1 or 2; or 0, which takes half of the registers, where the planes
// leave out more than that loses.
template <int small_chains, PlaneOrder order = PlaneOrder::rows,
          LargeProducts large_products = LargeProducts::truncated>
struct SplitAccumulator {
  Accumulator large, small[small_chains ? small_chains : 1];
  // Products of planes p and q with p + q < kept.
  template <int kept, int a_planes, int b_planes>
  __device__ void add_leading(const FragmentA<a_planes>& x, const FragmentB<b_planes>& y) {
    if constexpr (order == PlaneOrder::diagonals)
      add_diagonals<kept>(x, y);
    else
      add_rows<kept>(x, y);
  }
  template <int kept, int a_planes, int b_planes>
  __device__ void add_rows(const FragmentA<a_planes>& x, const FragmentB<b_planes>& y) {
#pragma unroll
    for (int p = 0; p < a_planes; ++p)
#pragma unroll
      for (int q = 0; q < b_planes; ++q)
        if (p + q < kept) {
          if (p + q == 0)
            add_large(x, y);
          else
            add_to(small_chains == 0 ? large : small[p > q && small_chains > 1], x.plane[p],
                   y.plane[q]);
        }
  }
  template <int kept, int a_planes, int b_planes>
  __device__ void add_diagonals(const FragmentA<a_planes>& x, const FragmentB<b_planes>& y) {
#pragma unroll
    for (int both = 0; both < kept; ++both)
#pragma unroll
      for (int p = 0; p <= both; ++p)
        if (const int q = both - p; p < a_planes && q < b_planes) {
          if (both == 0)
            add_large(x, y);
          else
            add_to(small_chains == 0 ? large : small[p % 2 && small_chains > 1], x.plane[p],
                   y.plane[q]);
        }
  }
  template <int a_planes, int b_planes>
  __device__ void add_large(const FragmentA<a_planes>& x, const FragmentB<b_planes>& y) {
    if constexpr (large_products == LargeProducts::truncated) {
      add_to(large, x.plane[0], y.plane[0]);
    } else {
      Accumulator these;
      add_to(these, x.plane[0], y.plane[0]);
      large.add(these);
    }
  }
  __device__ static void add_to(Accumulator& sums, const uint32_t (&x)[4], const uint32_t (&y)[4]) {
    mma(sums.c[0], x, y[0], y[1]);
    mma(sums.c[1], x, y[2], y[3]);
  }
  template <int a_planes, int b_planes>
  __device__ void add(const FragmentA<a_planes>& x, const FragmentB<b_planes>& y) {
    add_leading<(a_planes > b_planes ? a_planes : b_planes)>(x, y);
  }
  __device__ Accumulator total() const {
    if constexpr (small_chains == 0) return large;
    Accumulator sums;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float rest = small[0].c[p][i];
        if constexpr (small_chains > 1) rest += small[1].c[p][i];
        sums.c[p][i] = large.c[p][i] + rest;
      }
    return sums;
  }
};

// sums += a b for a (16, depth) from a's row `row` on and b (depth, 16) from b's column `column`
// on; transposed: of the transpose of what is in memory.
template <Layout a_layout, Layout b_layout, int depth, class Sums, class A, class B>
__device__ void multiply(Sums& sums, const A& a, int row, const B& b, int column) {
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    FragmentA<A::planes> x;
    FragmentB<B::planes> y;
    x.template load<a_layout>(a, row, k);
    y.template load<b_layout>(b, k, column);
    sums.add(x, y);
  }
}

}  // namespace deltasane::kernel::cuda
