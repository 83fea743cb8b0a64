// Few heads, the first kernel: the terms of a tile that do not depend on the state, for many tiles
// at once. See few_heads_forward.cu for the names.
#pragma once

#include "kernel/cuda/memory_order.cuh"
#include "kernel/delta_rule/cuda/operand_producer.cuh"
#include "kernel/delta_rule/cuda/tile_progress.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// The terms of a tile: what all rows of the state need,
template <class Real>
struct CarryOperands {
  SplitMatrix<state_planes, head_size, tile_tokens, SharedLayout::swizzled> a;         // A'
  SplitMatrix<result_planes<Real>, head_size, tile_tokens, SharedLayout::swizzled> r;  // R'
  SplitMatrix<state_planes, tile_tokens, head_size, SharedLayout::swizzled> b, k;      // B~ K~
  alignas(16) float decay[head_size];
};
// and what 16 of them need.
template <class Real>
struct CarryRows {
  SplitMatrix<exact_planes<Real>, tile_tokens, warp_rows, SharedLayout::swizzled> v;
  alignas(16) float u[warp_rows][tile_tokens], y[warp_rows][tile_tokens];
};
constexpr int row_blocks = head_size / warp_rows;
template <class Real>
struct TileTerms {
  CarryOperands<Real> operands;
  CarryRows<Real> rows[row_blocks];
};

// Blocks of this kernel on each multiprocessor, so that one of the sequential kernel fits beside
// them; their registers are bounded for that as if there were more.
constexpr int terms_beside = 2, terms_resident = 4;

template <class Real>
struct TermsMemory {
  ForwardOperands<Real> operands;
  ProducerMemory producer;
  int claimed;  // the tile after the next one
};

// Both kernels wait for their products.
template <class Real, int small_chains>
using ProductSums = StateAccumulator<Real, small_chains, PlaneOrder::diagonals>;

// From a tile's operands, the terms: each warp makes those of 16 channels and of 16 rows of the
// state.
template <class Real>
__device__ void make_terms(const ForwardOperands<Real>& operands, TileTerms<Real>& out) {
  constexpr int result = result_planes<Real>;
  const int warp = threadIdx.x / 32, first = warp * 16;
  FragmentB<state_planes> inverse;
  FragmentB<result> rb;
  inverse.template load<Layout::row_major>(operands.inverse, 0, 0);
  rb.template load<Layout::transposed>(operands.rb, 0, 0);
  {  // A' and R', transposed
    FragmentA<state_planes> a;
    a.template load<Layout::transposed>(operands.a, first, 0);
    ProductSums<Real, 2> sums;
    sums.add(a, inverse);
    const Accumulator whole = sums.total();
    const auto into = [&](auto& matrix) {
      return [&matrix, first](int i, int t, float x, float next) {
        matrix.set(first + i, t, {x, next});
      };
    };
    whole.each(into(out.operands.a));
    FragmentA<result> r;
    r.template load<Layout::transposed>(operands.r, first, 0);
    ProductSums<Real, 1> more;
    more.template add_leading<result>(FragmentA<state_planes>(whole), rb);
    Accumulator reads = r.to_accumulator();
    reads.add(more.total());
    reads.each(into(out.operands.r));
  }
  {  // U and Y0, transposed
    FragmentA<exact_planes<Real>> v;
    FragmentB<state_planes> ak;
    FragmentB<result> rk;
    v.template load<Layout::transposed>(operands.values, first, 0);
    ak.template load<Layout::transposed>(operands.ak, 0, 0);
    rk.template load<Layout::transposed>(operands.rk, 0, 0);
    ProductSums<Real, 2> sums, u_sums;
    ProductSums<Real, 1> y_sums;
    sums.add(v, ak);
    u_sums.add(FragmentA<state_planes>(sums.total()), inverse);
    const Accumulator u = u_sums.total();
    y_sums.template add_leading<result>(v, rk);
    y_sums.template add_leading<result>(FragmentA<state_planes>(u), rb);
    const auto into = [](float(&rows)[warp_rows][tile_tokens]) {
      return [&rows](int i, int t, float x, float next) {
        *reinterpret_cast<float2*>(&rows[i][t]) = {x, next};
      };
    };
    u.each(into(out.rows[warp].u)), y_sums.total().each(into(out.rows[warp].y));
  }
  const int token = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
  const auto copy = [](__nv_bfloat16* to, const __nv_bfloat16* from) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  };
#pragma unroll
  for (int p = 0; p < state_planes; ++p) {
    copy(out.operands.b.at(p, token, part), operands.b.at(p, token, part));
    copy(out.operands.k.at(p, token, part), operands.k.at(p, token, part));
  }
#pragma unroll
  for (int p = 0; p < exact_planes<Real>; ++p)
    copy(out.rows[part / warp_rows].v.at(p, token, part % warp_rows),
         operands.values.at(p, token, part));
  if (threadIdx.x < head_size) out.operands.decay[threadIdx.x] = operands.decay[threadIdx.x];
}

// A block makes the terms of one tile after the other: each time the first one that is not claimed,
// tiles of all heads in the order of their tokens.
template <class Real>
__global__ __launch_bounds__(producer_threads,
                             terms_resident) void terms_kernel(DeltaRule<Real> op, int tiles,
                                                               TileTerms<Real>* all,
                                                               TileProgress progress) {
  trigger_dependent_launch();
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<TermsMemory<Real>*>(dynamic_shared);
  const int heads = int(op.batch * op.heads), count = heads * tiles;
  const bool leader = threadIdx.x == producer_threads - 32;  // of a warp with less work than others
  OperandProducer<Real> producer(memory.producer, op, 0);
  const auto load = [&](int which) {
    if (which >= count) return;
    const int64_t of_head = which % heads;
    producer.set_head(op, of_head / op.heads, of_head % op.heads);
    producer.load(which / heads, tile_tokens);
  };
  // The flag of a tile is set a tile late, so that nobody waits until its terms are written.
  uint32_t* pending = nullptr;
  const auto set_ready = [&] {
    if (leader && pending) store_release(pending, 1);
  };
  int which = blockIdx.x, next = which + gridDim.x;
  load(which);
  while (which < count) {
    const uint32_t claimed = leader ? atomicAdd(progress.claimed, 1u) : 0;
    producer.make_vectors(memory.operands);
    if (leader) memory.claimed = int(2 * gridDim.x + claimed);
    load(next);
    producer.template make_products<PlaneOrder::diagonals>(memory.operands);
    set_ready();
    __syncthreads();
    const int after = memory.claimed;
    const int64_t place = int64_t(which % heads) * tiles + which / heads;
    make_terms(memory.operands, all[place]);
    __syncthreads();  // all stores of the terms are issued, and the shared memory is free
    pending = progress.ready + place;
    which = next, next = after;
  }
  set_ready();
}

}  // namespace
}  // namespace deltasane::kernel::cuda
