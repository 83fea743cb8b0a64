// Tiles in shared memory for the passes over the states: their terms, and the values (v or dy) of
// the block's rows, copied by a warp of their own some tiles ahead.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/gated_cuda/terms.cuh"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

constexpr int row_group = 16;  // rows of a state that the warps of a group hold

// How a block divides its rows of a state: in groups of 16 rows, each of which has a warp for every
// `columns` columns. Where there are several, they add up products with the state, and one more warp
// of the group writes the results. The block's last warp copies tiles.
template <int keys_, int columns_, int groups_>
struct Division {
  static constexpr int keys = keys_, columns = columns_, groups = groups_, split = keys / columns;
  static constexpr int state_warps = groups * split, writers = split > 1 ? groups : 0;
  static constexpr int threads = 32 * (state_warps + writers + 1), rows = groups * row_group;
  static_assert(keys % columns == 0 && columns % 16 == 0);
  // Blocks of a multiprocessor, and whether a warp has registers for the operands of the next tile.
  static constexpr int resident = keys <= 128 ? 2 : 1;
  static constexpr bool loads_ahead = columns == 32;
};
// For few heads, which leave multiprocessors idle otherwise; for many, of 256 keys as a warp has no
// registers for whole rows of them.
template <int keys>
using FewHeads = Division<keys, 32, 1>;
template <int keys>
using ManyHeads = Division<keys, keys == 256 ? 64 : keys, keys == 256 ? 2 : 4>;

// Whether ManyHeads is used.
inline bool many_heads(const GatedRule& op, const Gpu& gpu) {
  const int64_t rows = op.keys == 256 ? ManyHeads<256>::rows : ManyHeads<128>::rows;
  return op.values % rows == 0 &&
         op.batch * op.heads * op.values / rows >= gpu.properties().multiprocessors;
}

template <Decay decay, class Division, int q_planes>
struct Stage;
template <class Division, int q_planes>
struct Stage<Decay::per_head, Division, q_planes> {
  PerHeadTerms terms;
  SplitMatrix<1, tile_size, Division::keys> k, q;
  SplitMatrix<1, tile_size, Division::rows> values;
  __device__ const auto& k_in() const { return k; }
  __device__ const auto& k_out() const { return k; }
  __device__ const auto& q_in() const { return q; }
  // Multiplies a product with k_in or q_in, or with k_out, whose columns are tokens.
  __device__ static void scale(Accumulator& x, const float (&factors)[tile_size]) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float2 f = *reinterpret_cast<const float2*>(&factors[8 * p + column]);
      x.c[p][0] *= f.x, x.c[p][1] *= f.y, x.c[p][2] *= f.x, x.c[p][3] *= f.y;
    }
  }
  __device__ void scale_in(Accumulator& x) const { scale(x, terms.in); }
  __device__ void scale_out(Accumulator& x) const { scale(x, terms.out); }
  __device__ float2 decay(int) const { return {terms.decay[0], terms.decay[0]}; }
};
template <class Division, int q_planes>
struct Stage<Decay::per_channel, Division, q_planes> {
  PerChannelTerms<Division::keys, q_planes> terms;
  SplitMatrix<1, tile_size, Division::rows> values;
  __device__ const auto& k_in() const { return terms.w; }  // W instead of K_in
  __device__ const auto& k_out() const { return terms.k_out; }
  __device__ const auto& q_in() const { return terms.q_in; }
  __device__ void scale_in(Accumulator&) const {}
  __device__ void scale_out(Accumulator&) const {}
  __device__ float2 decay(int column) const {  // of two neighbours
    return *reinterpret_cast<const float2*>(&terms.decay[column]);
  }
};

// How many stages a block has in so many KiB, two to four.
template <class Stage>
constexpr int stages_within(int kib) {
  const int fit = kib * 1024 / int(sizeof(Stage));
  return fit >= 4 ? 4 : fit >= 3 ? 3 : 2;
}
// Stages that are full, and empty again.
template <class Stage, int consumers, int count_>
struct StageQueue {
  static constexpr int count = count_;
  Stage stage[count];
  Mbarrier full[count], empty[count];

  __device__ void init() {  // by one thread, before a barrier of the block
    for (int i = 0; i < count; ++i) mbarrier_init(full[i], 1), mbarrier_init(empty[i], consumers);
  }
  __device__ const Stage& wait(int i) const {  // for the i-th tile
    mbarrier_wait(full[i % count], i / count % 2);
    return waited_for(i);
  }
  __device__ const Stage& waited_for(int i) const { return stage[i % count]; }
  __device__ void release(int i) {  // by a warp that does not use it any more
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty[i % count]);
  }
};

// Copies a head's tiles.
template <class Queue, class Terms>
struct TileLoader {
  Queue& queue;
  const Terms* terms;  // of the first tile
  const bf16 *k, *q, *values;
  int64_t key_step, value_step;
  Tiles tiles;

  // present: a bit for each token.
  template <int planes, int rows, int columns>
  __device__ void copy_rows(SplitMatrix<planes, rows, columns>& to, const bf16* from, int64_t step,
                            int first, uint32_t present) const {
    constexpr int pieces = columns / 8, lanes = 32 / pieces * pieces, at_once = lanes / pieces;
    static_assert(pieces <= 32 && rows % at_once == 0);
    const int lane = threadIdx.x % 32, row = lane / pieces, column = lane % pieces * 8;
    if (lane >= lanes) return;
    const bf16* at = from + (first + row) * step + column;
    auto* place = reinterpret_cast<uint4*>(to.at(0, row, column));
    present >>= row;
#pragma unroll
    for (int i = 0; i < rows; i += at_once) {
      const bool wanted = present >> i & 1;
      copy_async(place, wanted ? at : from, wanted);
      at += at_once * step, place += at_once * to.stride / 8;
    }
  }
  template <Decay decay, class Division, int q_planes>
  __device__ void copy_vectors(Stage<decay, Division, q_planes>& to, int first,
                               uint32_t present) const {
    if constexpr (decay == Decay::per_head) {
      copy_rows(to.k, k, key_step, first, present);
      copy_rows(to.q, q, key_step, first, present);
    }
  }
  __device__ void issue(int at, int tile) const {
    auto& to = queue.stage[at % Queue::count];
    const auto* from = reinterpret_cast<const uint4*>(terms + tile);
    auto* const place = reinterpret_cast<uint4*>(&to.terms);
    constexpr int pieces = sizeof(to.terms) / sizeof(uint4);
    static_assert(sizeof(to.terms) % sizeof(uint4) == 0);
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < pieces; i += 32) copy_async(place + i, from + i);
    const int first = tiles.first(tile);
    const uint32_t present = tiles.mask(tile);
    copy_vectors(to, first, present);
    copy_rows(to.values, values, value_step, first, present);
  }
  // tile_of(i): the i-th of `count` tiles.
  template <class TileOf>
  __device__ void run(int count, TileOf&& tile_of) const {
    // A tile counts as full when the next one is being copied. Waiting for more would hold it back
    // until a stage is empty, and so would that one where there are only two.
    constexpr int behind = Queue::count > 2 ? 1 : 0;
    for (int i = 0; i < count + behind; ++i) {
      if (i < count) {
        if (i >= Queue::count)
          mbarrier_wait(queue.empty[i % Queue::count], (i / Queue::count - 1) % 2);
        issue(i, tile_of(i));
      }
      commit_group();
      if (i < behind) continue;
      wait_group<behind>();
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(queue.full[(i - behind) % Queue::count]);
    }
  }
};

// Sums over the channels of a group's warps: every warp stores its part, and after a barrier each
// adds up all of them in the same order, by halves.
template <int warps>
struct PartialProducts {
  float4 part[warps][2][32];
  __device__ void store(int warp, const Accumulator& x) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
      part[warp][p][threadIdx.x % 32] = make_float4(x.c[p][0], x.c[p][1], x.c[p][2], x.c[p][3]);
  }
  __device__ Accumulator sum() const { return sum_of<warps>(0); }
  // For a warp of the group, which has its own part in registers.
  template <int count = 1>
  __device__ Accumulator sum_with(int warp, const Accumulator& own) const {
    if constexpr ((warps & (warps - 1)) != 0) {
      return sum();
    } else if constexpr (count == warps) {
      return own;
    } else {
      Accumulator x = own;
      x.add(sum_of<count>((warp & ~(count - 1)) ^ count));
      return sum_with<2 * count>(warp, x);
    }
  }

 private:
  template <int count>
  __device__ Accumulator sum_of(int first) const {
    Accumulator x;
    if constexpr (count == 1) {
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float4 of = part[first][p][threadIdx.x % 32];
        x.c[p][0] = of.x, x.c[p][1] = of.y, x.c[p][2] = of.z, x.c[p][3] = of.w;
      }
    } else {
      x = sum_of<count / 2>(first);
      x.add(sum_of<count - count / 2>(first + count / 2));
    }
    return x;
  }
};
// Of the warps of a group; the first barrier is the block's.
template <class Division>
__device__ void group_barrier(int group) {
  named_barrier<32 * (Division::split + 1)>(1 + group);
}

}  // namespace deltasane::kernel::cuda
