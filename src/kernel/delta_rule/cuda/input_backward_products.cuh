// The products of a tile in input_backward.cu, in their order: with the states, the triangular
// solve, with the tokens, between the tokens.
#pragma once

#include "kernel/delta_rule/cuda/input_backward_tile.cuh"

namespace deltasane::kernel::cuda {
namespace {

template <class Real, int columns>
struct TileProducts : GradientTile<Real, columns> {
  using Base = GradientTile<Real, columns>;
  using Base::Base, Base::planes, Base::exact, Base::memory, Base::lane, Base::reader, Base::own,
      Base::column, Base::place, Base::square_top, Base::square_left;
  using typename Base::StateOperands;
  // Two planes leave out 2^-16 of a product.
  using Products = SplitAccumulator<planes == 2 ? 0 : 1>;

  // Of a reader's square, what token t reads of s: those before it only. Rows of the sums are t, or
  // s where transposed.
  template <Layout layout>
  __device__ Accumulator lower_part(const Products& square) const {
    const Accumulator all = square.total();
    Accumulator lower;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = 8 * p + lane % 4 * 2 + i % 2;
        const int t = layout == Layout::row_major ? row : column;
        const int s = layout == Layout::row_major ? column : row;
        lower.c[p][i] = s <= (square_top ? t : t - 1) ? all.c[p][i] : 0.0f;
      }
    return lower;
  }
  // A reader's S0 A~'; and, but for the first reader, a square of reads times writes', transposed,
  // so that A~ is operand B of both. bottom: square_top is not 0.
  template <bool squared, bool bottom>
  __device__ void multiply_reads(const StateOperands& first, Products& sa, Products& square) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      FragmentB<planes> reads;
      reads.template load<Layout::transposed>(memory.reads, k, 0);
      sa.add(first[k / 16], reads);
      if constexpr (squared) {
        FragmentA<planes> writes;
        if constexpr (bottom) reads.template load<Layout::transposed>(memory.reads, k, tile_tokens);
        writes.template load<Layout::row_major>(memory.writes, square_left, k);
        square.add(writes, reads);
      }
    }
  }
  // A writer's D B~' and D K~'.
  __device__ void multiply_writes(const StateOperands& last, Products& z, Products& dv) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      FragmentB<planes> writes;
      writes.template load<Layout::transposed>(memory.writes, k, 0);
      z.add(last[k / 16], writes);
      writes.template load<Layout::transposed>(memory.writes, k, tile_tokens);
      dv.add(last[k / 16], writes);
    }
  }
  // Either; beside: the square, or D K~'.
  __device__ void multiply_state(const StateOperands& rows, Products& sums,
                                 Products& beside) const {
    if (!reader)
      multiply_writes(rows, sums, beside);
    else if (square_top)
      multiply_reads<true, true>(rows, sums, beside);
    else if (square_left)
      multiply_reads<true, false>(rows, sums, beside);
    else
      multiply_reads<false, false>(rows, sums, beside);
  }
  __device__ void store_lower(const Products& square) {
    FragmentA<planes>(lower_part<Layout::transposed>(square))
        .store(memory.lower, square_left, square_top);
  }
  // A reader's SA' = (S0 A~' + V' AK') M', or a writer's Z' = (D B~' + dY' RB) M and dV' = D K~' +
  // Z' AK + dY' RK.
  __device__ void solve(Products& sums, Products& dv) {
    FragmentA<exact> values;
    FragmentB<planes> lower, inverse;
    values.template load<Layout::transposed>(reader ? memory.v : memory.dy, column, 0);
    if (reader) {
      lower.template load<Layout::row_major>(memory.lower, tile_tokens, 0);
      inverse.template load<Layout::transposed>(memory.inverse, 0, 0);
    } else {
      lower.template load<Layout::transposed>(memory.lower, tile_tokens, 0);
      inverse.template load<Layout::row_major>(memory.inverse, 0, 0);
    }
    sums.add(values, lower);
    Products solved;
    solved.add(FragmentA<planes>(sums.total()), inverse);
    const FragmentA<planes> result(solved.total());
    result.store(reader ? memory.sa : memory.z, column, 0);
    if (reader) return;
    lower.template load<Layout::transposed>(memory.lower, tile_tokens, tile_tokens);
    dv.add(values, lower);
    lower.template load<Layout::transposed>(memory.lower, 0, tile_tokens);
    dv.add(result, lower);
  }

  // Z S0 and dY S0; and a square of the pairs, of dY if at the bottom, with V if at the right.
  template <bool bottom, bool right>
  __device__ void multiply_first(Products (&both)[2], Products& square) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      FragmentA<planes> z;
      FragmentA<exact> dy;
      FragmentB<planes> S;
      FragmentB<right ? exact : planes> other;
      z.template load<Layout::transposed>(memory.z, 0, k);
      dy.template load<Layout::row_major>(memory.dy, 0, k);
      S.template load<Layout::row_major>(memory.first, k, place());
      if constexpr (right)
        other.template load<Layout::transposed>(memory.v, k, 0);
      else
        other.template load<Layout::row_major>(memory.sa, k, 0);
      both[0].add(z, S);
      both[1].add(dy, S);
      if constexpr (bottom)
        square.add(dy, other);
      else
        square.add(z, other);
    }
  }
  // SA D and V D; and S0' D, of the channels of this warp with themselves.
  __device__ void multiply_last(Products (&both)[2], Products& states) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      FragmentA<planes> sa, S;
      FragmentA<exact> v;
      FragmentB<planes> D;
      sa.template load<Layout::transposed>(memory.sa, 0, k);
      v.template load<Layout::row_major>(memory.v, 0, k);
      D.template load<Layout::row_major>(memory.last, k, place());
      S.template load<Layout::transposed>(memory.first, place(), k);
      both[0].add(sa, D);
      both[1].add(v, D);
      states.add(S, D);
    }
  }
  // Either; beside: the square, or S0' D.
  __device__ void multiply_tokens(Products (&both)[2], Products& beside) const {
    if (!reader)
      multiply_last(both, beside);
    else if (square_top)
      square_left ? multiply_first<true, true>(both, beside)
                  : multiply_first<true, false>(both, beside);
    else
      square_left ? multiply_first<false, true>(both, beside)
                  : multiply_first<false, false>(both, beside);
  }
  __device__ void store_pairs(const Products& square) {
    FragmentA<planes>(lower_part<Layout::row_major>(square))
        .store(memory.pairs, square_top, square_left);
  }
  // A~ and R~, or B~ and K~, as accumulators.
  __device__ void read_vectors(Accumulator (&vectors)[2]) const {
    const auto& from = reader ? memory.reads : memory.writes;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      FragmentA<planes> x;
      x.template load<Layout::row_major>(from, n * tile_tokens, column);
      vectors[n] = x.to_accumulator();
    }
  }
  // Of two channels of each piece of 8.
  using ChannelSums = float[2][2];
  // The sums of D (S0 + SA' B~ + V' K~) in a key channel. Those of D S0 are the diagonal of S0' D,
  // of which lane 4 c + c / 2 has channel c.
  __device__ void sum_states(const Products& states, const Products (&both)[2],
                             const Accumulator (&writes)[2], ChannelSums& state_sums) const {
    const Accumulator b = both[0].total(), k = both[1].total(), S = states.total();
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = lane / 4 == lane % 4 * 2 + i ? S.c[p][2 * p + i] : 0.0f;
#pragma unroll
        for (int row = 0; row < 4; row += 2)
          sum = fmaf(b.c[p][row + i], writes[0].c[p][row + i],
                     fmaf(k.c[p][row + i], writes[1].c[p][row + i], sum));
#pragma unroll
        for (int away = 4; away < 32; away *= 2) sum += __shfl_xor_sync(~0u, sum, away);
        state_sums[p][i] = sum;
      }
  }
  // The rest of both, from the pairs of tokens.
  __device__ void add_pairs(Products (&both)[2]) const {
    const auto& others = reader ? memory.writes : memory.reads;
#pragma unroll
    for (int k = 0; k < pair_rows; k += 16) {
      FragmentB<planes> other;
      FragmentA<planes> pairs[2];
      other.template load<Layout::row_major>(others, k, column);
      if (reader)
        load_pairs<Layout::row_major>(pairs, k);
      else
        load_pairs<Layout::transposed>(pairs, k);
#pragma unroll
      for (int n = 0; n < 2; ++n) both[n].add(pairs[n], other);
    }
  }
  template <Layout layout>
  __device__ void load_pairs(FragmentA<planes> (&pairs)[2], int k) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) pairs[n].template load<layout>(memory.pairs, n * tile_tokens, k);
  }
};

}  // namespace
}  // namespace deltasane::kernel::cuda
