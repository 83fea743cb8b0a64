// Tiles in shared memory for the passes over the states: their terms, and the values (v or dy) of
// the block's rows, copied by a warp of their own some tiles ahead.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/gated_cuda/terms.cuh"

namespace deltasane::kernel::cuda {

constexpr int row_group = 16;      // rows of a state that the warps of a group hold
constexpr int warp_columns = 32;   // of a state that a warp holds

// groups: of rows, in a block.
template <int keys>
constexpr int group_warps = keys / warp_columns;

// Roles of a block's warps: those that hold the state, group after group; one per group that writes
// results; the loader.
template <int keys, int groups>
struct Roles {
  static constexpr int state_warps = groups * group_warps<keys>;
  static constexpr int threads = 32 * (state_warps + groups + 1);
};

template <Decay decay, int keys, int groups, int q_planes>
struct Stage;
template <int keys, int groups, int q_planes>
struct Stage<Decay::per_head, keys, groups, q_planes> {
  PerHeadTerms terms;
  SplitMatrix<1, tile_size, keys> k, q;
  SplitMatrix<1, tile_size, groups * row_group> values;
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
template <int keys, int groups, int q_planes>
struct Stage<Decay::per_channel, keys, groups, q_planes> {
  PerChannelTerms<keys, q_planes> terms;
  SplitMatrix<1, tile_size, groups * row_group> values;
  __device__ const auto& k_in() const { return terms.k_in; }
  __device__ const auto& k_out() const { return terms.k_out; }
  __device__ const auto& q_in() const { return terms.q_in; }
  __device__ void scale_in(Accumulator&) const {}
  __device__ void scale_out(Accumulator&) const {}
  __device__ float2 decay(int column) const {  // of two neighbours
    return *reinterpret_cast<const float2*>(&terms.decay[column]);
  }
};

// Tiles in shared memory at once: four, or three where they are large.
template <class Stage>
constexpr int stage_count = 4 * sizeof(Stage) <= 150 * 1024 ? 4 : 3;

// Copies a head's tiles. A lane waits only for its own copies; the block's barrier then shows them
// to the others.
template <class Stage, class Terms>
struct TileLoader {
  Stage* stage;
  const Terms* terms;  // of the first tile
  const bf16 *k, *q, *values;
  int64_t key_step, value_step;
  Tiles tiles;
  static constexpr int stages = stage_count<Stage>;

  template <int planes, int rows, int columns>
  __device__ void copy_rows(SplitMatrix<planes, rows, columns>& to, const bf16* from, int64_t step,
                            int first) const {
    constexpr int pieces = columns / 8;
    static_assert(rows * pieces % 32 == 0);
#pragma unroll
    for (int i = 0; i < rows * pieces / 32; ++i) {
      const int piece = 32 * i + threadIdx.x % 32, row = piece / pieces, column = piece % pieces * 8;
      const bool present = tiles.present(first + row);
      copy_async(reinterpret_cast<uint4*>(to.at(0, row, column)),
                 from + (present ? (first + row) * step + column : 0), present);
    }
  }
  template <Decay decay, int keys, int groups, int q_planes>
  __device__ void copy_vectors(cuda::Stage<decay, keys, groups, q_planes>& to, int first) const {
    if constexpr (decay == Decay::per_head) {
      copy_rows(to.k, k, key_step, first);
      copy_rows(to.q, q, key_step, first);
    }
  }
  __device__ void issue(int at, int tile) const {
    Stage& to = stage[at % stages];
    const auto* from = reinterpret_cast<const uint4*>(terms + tile);
    auto* const place = reinterpret_cast<uint4*>(&to.terms);
    constexpr int pieces = sizeof(to.terms) / sizeof(uint4);
    static_assert(sizeof(to.terms) % sizeof(uint4) == 0);
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < pieces; i += 32) copy_async(place + i, from + i);
    copy_vectors(to, tiles.first(tile));
    copy_rows(to.values, values, value_step, tiles.first(tile));
  }
  // tile_of(i): the i-th of `count` tiles. Meets the block's barrier count + 1 times: after the
  // i-th, the tiles up to i are there; after the i + 1-th, the i-th is not used any more.
  template <class TileOf>
  __device__ void run(int count, TileOf&& tile_of) const {
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) {
      if (i < count) issue(i, tile_of(i));
      commit_group();
    }
    wait_group<stages - 2>();
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      wait_group<stages - 3>();
      __syncthreads();
      if (i + stages - 1 < count) issue(i + stages - 1, tile_of(i + stages - 1));
      commit_group();
    }
  }
};

// Sums over the channels of a group's warps: every warp stores its part, and after a barrier each
// adds up all of them in the same order.
template <int warps>
struct PartialProducts {
  float4 part[warps][2][32];
  __device__ void store(int warp, const Accumulator& x) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
      part[warp][p][threadIdx.x % 32] = make_float4(x.c[p][0], x.c[p][1], x.c[p][2], x.c[p][3]);
  }
  __device__ Accumulator sum() const {
    Accumulator total;
#pragma unroll
    for (int w = 0; w < warps; ++w)
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float4 x = part[w][p][threadIdx.x % 32];
        total.c[p][0] += x.x, total.c[p][1] += x.y, total.c[p][2] += x.z, total.c[p][3] += x.w;
      }
    return total;
  }
};

}  // namespace deltasane::kernel::cuda
