// Tiles in shared memory for the passes over the states: their terms, and the values (v or dy) of
// the block's rows, copied by a warp of their own some tiles ahead.
#pragma once

#include <nv/target>

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/cuda/ready_tiles.cuh"
#include "kernel/delta_rule/gated_cuda/terms.cuh"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

constexpr int row_group = 16;  // rows of a state that the warps of a group hold

// How a block divides its rows of a state: in groups of 16 rows, each of which has a warp for every
// `columns` columns. Where there are several, they add up products with the state, one more warp of
// the group writes the results, and the block's last warp copies tiles. Warps with whole rows copy
// tiles themselves: with one warp more a block, a quarter of a multiprocessor's registers would be
// divided by three warps instead of two, 168 for each instead of 255.
template <int keys_, int columns_, int groups_>
struct Division {
  static constexpr int keys = keys_, columns = columns_, groups = groups_, split = keys / columns;
  static constexpr int state_warps = groups * split, writers = split > 1 ? groups : 0;
  static constexpr int loader_warps = split > 1 ? 1 : state_warps;
  static constexpr int threads = 32 * (state_warps + writers + (split > 1)),
                       rows = groups * row_group;
  static_assert(keys % columns == 0 && columns % 16 == 0);
  // Blocks of a multiprocessor, and whether a warp has registers for operands before it needs them.
  static constexpr int resident = keys <= 128 ? 2 : 1;
  static constexpr bool loads_ahead = columns == 32;
  // Whether a multiprocessor has room for the kernel that makes the terms beside a block.
  static constexpr bool terms_beside = split > 1 && resident > 1;
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
  using KIn = SplitMatrix<1, tile_size, Division::keys>;
  using KOut = KIn;
  using QIn = KIn;
  using Values = SplitMatrix<1, tile_size, Division::rows>;
  static constexpr bool one_decay = true;
  PerHeadTerms terms;
  KIn k;
  QIn q;
  Values values;
  __device__ const auto& k_in() const { return k; }
  __device__ const auto& k_out() const { return k; }
  __device__ const auto& q_in() const { return q; }
  // What a product with k_in or q_in, or with k_out, whose columns are tokens, is multiplied by: this
  // lane's tokens.
  struct Factors {
    float2 of[2];
    Factors() = default;
    __device__ explicit Factors(const float (&all)[tile_size]) {
#pragma unroll
      for (int p = 0; p < 2; ++p)
        of[p] = *reinterpret_cast<const float2*>(&all[8 * p + threadIdx.x % 4 * 2]);
    }
    __device__ void scale(Accumulator& x) const {
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int i = 0; i < 4; ++i) x.c[p][i] *= i % 2 ? of[p].y : of[p].x;
    }
  };
  __device__ static void scale(Accumulator& x, const float (&factors)[tile_size]) {
    Factors(factors).scale(x);
  }
  __device__ Factors factors_in() const { return Factors(terms.in); }
  __device__ void scale_in(Accumulator& x) const { scale(x, terms.in); }
  __device__ void scale_out(Accumulator& x) const { scale(x, terms.out); }
  __device__ float2 decay(int) const { return {terms.decay[0], terms.decay[0]}; }
};
template <class Division, int q_planes>
struct Stage<Decay::per_channel, Division, q_planes> {
  using KIn = SolvedKeys<Division::keys>;
  using KOut = SplitMatrix<gated_planes, tile_size, Division::keys>;
  using QIn = SplitMatrix<q_planes, tile_size, Division::keys>;
  using Values = SplitMatrix<1, tile_size, Division::rows>;
  static constexpr bool one_decay = false;
  PerChannelTerms<Division::keys, q_planes> terms;
  Values values;
  __device__ const auto& k_in() const { return terms.w; }  // W instead of K_in
  __device__ const auto& k_out() const { return terms.k_out; }
  __device__ const auto& q_in() const { return terms.q_in; }
  struct Factors {
    __device__ void scale(Accumulator&) const {}
  };
  __device__ Factors factors_in() const { return {}; }
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
// Where the loader is in step with the others; see TileLoader.
template <Decay decay>
constexpr int step_stages = decay == Decay::per_head ? 6 : 5;
// What a block may have on compute capability 8.6, 8.9 and 12.0, and on 8.0, less what the queue's
// mbarriers take and what is rounded up.
constexpr size_t limited_shared = 98 * 1024, ample_shared = 160 * 1024;
// Stages that are full, and empty again: so many arrivals each.
template <class Stage, int loaders, int consumers, int count_>
struct StageQueue {
  static constexpr int count = count_;
  Stage stage[count];
  Mbarrier full[count], empty[count];

  __device__ void init() {  // by one thread, before a barrier of the block
    for (int i = 0; i < count; ++i)
      mbarrier_init(full[i], loaders), mbarrier_init(empty[i], consumers);
  }
  __device__ void await(unsigned i) const {  // the i-th tile
    mbarrier_wait(full[i % count], i / count % 2);
  }
  __device__ const Stage& wait(unsigned i) const {
    await(i);
    return waited_for(i);
  }
  // Until stage i, which the tile i - count had, is empty.
  __device__ void await_empty(unsigned i) const {
    if (i >= count) mbarrier_wait(empty[i % count], (i / count - 1) % 2);
  }
  __device__ const Stage& waited_for(unsigned i) const { return stage[i % count]; }
  __device__ static uint32_t bytes(unsigned i) { return i % count * uint32_t(sizeof(Stage)); }
  __device__ void release(unsigned i) {  // by a warp that does not use it any more
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty[i % count]);
  }
};

// Of the warps of a group that hold the state, and of `others` more of it; the first barrier is the
// block's.
template <class Division, int others = 0>
__device__ void group_barrier(int group) {
  named_barrier<32 * (Division::split + others)>(1 + group);
}

// Of all warps of a block that has one group; see TileLoader.
constexpr int step_number = 1;
template <class Division>
__device__ void step_barrier() {
  named_barrier<step_number, Division::threads>();
}
// By the writer, which does not wait.
template <class Division>
__device__ void arrive_at_step_barrier() {
  __syncwarp();
  named_barrier_arrive<Division::threads>(step_number);
}

// Copies a head's tiles, by the block's first or last threads.
template <int threads, class Queue, class Terms>
struct TileLoader {
  Queue& queue;
  ReadyTiles ready;    // without flags all are
  const Terms* terms;  // of the first tile
  const bf16 *k, *q, *values;
  int64_t key_step, value_step;
  Tiles tiles;

  __host__ __device__ static constexpr int rows_at_once(int most) {
    int rows = tile_size;
    while (rows > most) rows /= 2;
    return rows;
  }
  // present: a bit for each token.
  template <int planes, int columns, class Step>
  __device__ void copy_rows(SplitMatrix<planes, tile_size, columns>& to, const bf16* from,
                            Step step, int first, uint32_t present) const {
    constexpr int pieces = columns / 8, at_once = rows_at_once(threads / pieces);
    static_assert(pieces <= threads && tile_size % at_once == 0);
    const int lane = threadIdx.x % threads, row = lane / pieces, column = lane % pieces * 8;
    if (at_once * pieces < threads && row >= at_once) return;
    const bf16* at = from + (first + row) * int64_t(step) + column;
    auto* const place = reinterpret_cast<uint4*>(to.at(0, row, column));
    constexpr int place_step = at_once * to.stride / 8;
    const int64_t at_step = int64_t(step) * at_once;
    if (present == whole_tile) {
#pragma unroll
      for (int i = 0; i < tile_size / at_once; ++i, at += at_step)
        copy_async(place + i * place_step, reinterpret_cast<const uint4*>(at));
    } else {
      for (int i = 0; i < tile_size / at_once; ++i, at += at_step) {
        const bool wanted = present >> (row + i * at_once) & 1;
        copy_async(place + i * place_step, wanted ? at : from, wanted);
      }
    }
  }
  // Steps between rows: of 32 bits, as one instruction then adds one to an address; of 64 bits in passes
  // that wait for other things, whose code is scheduled worse otherwise.
  template <class Step, class Stage>
  __device__ void copy_vectors(Stage& to, int tile, uint32_t present) const {
    const int first = tiles.first(tile);
    if constexpr (Stage::one_decay) {
      copy_rows(to.k, k, Step(key_step), first, present);
      copy_rows(to.q, q, Step(key_step), first, present);
    }
    copy_rows(to.values, values, Step(value_step), first, present);
  }
  // bulk: from compute capability 9.0 on one copy, which `full` counts.
  template <bool bulk>
  __device__ void copy_terms(int tile, unsigned place) const {
    auto& to = queue.stage[place].terms;  // may be less than all of them
    static_assert(sizeof(to) % sizeof(uint4) == 0);
    const auto by_all = [&] {
      copy_contiguous<threads, sizeof(to) / sizeof(uint4)>(&to, terms + tile);
    };
    if constexpr (!bulk) return by_all();
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                      (if (threadIdx.x % threads == 0)
                           bulk_copy_async(&to, terms + tile, sizeof(to), queue.full[place]);),
                      (by_all();))
  }
  template <bool bulk, class Block>
  __device__ void copy(int tile, unsigned place, const Block& block) {
    if constexpr (Block::terms_beside)
      if (ready.ready) ready.wait(tile);
    auto& to = queue.stage[place];
    copy_terms<bulk>(tile, place);
    if constexpr (!Block::in_step)
      copy_vectors<int64_t>(to, tile, tiles.mask(tile));
    else if (tiles.is_inner(tile))
      copy_vectors<uint32_t>(to, tile, whole_tile);
    else
      copy_vectors<uint32_t>(to, tile, tiles.mask(tile));
    block.template copy_saved<threads>(to, tile);
  }
  // block.tile_of(i): the i-th of `count` tiles.
  template <class Block>
  __device__ void run(unsigned count, const Block& block) {
    for (unsigned i = 0; i < count; ++i) copy_and_arrive(i, block);
  }
  // By warps that hold the state: begin(), then next(i) as a warp begins tile i.
  static constexpr unsigned ahead = Queue::count > 2 ? Queue::count - 2 : 1;
  template <class Block>
  __device__ void begin(unsigned count, const Block& block) {
    for (unsigned i = 0; i < min(count, ahead); ++i) copy_and_arrive(i, block);
  }
  template <class Block>
  __device__ void next(unsigned i, unsigned count, const Block& block) {
    if (i + ahead < count) copy_and_arrive(i + ahead, block);
  }
  template <class Block>
  __device__ void copy_and_arrive(unsigned i, const Block& block) {
    queue.await_empty(i);
    copy<false>(block.tile_of(i), i % Queue::count, block);
    arrive_after_copies(queue.full[i % Queue::count]);
  }
  // In step with the block's only group: its warps pass barrier i when tile i + 1 is there, and have
  // then done with tile i - 1. They neither wait for stages by mbarriers nor release them, which would
  // take longer than a barrier. The writer has done with tile i - 2, whose stage is filled.
  template <class Division, class Block>
  __device__ void run_in_step(int count, const Block& block) {
    terms = hoist(terms), k = hoist(k), q = hoist(q), values = hoist(values);
    key_step = hoist(uint32_t(key_step)), value_step = hoist(uint32_t(value_step));
    constexpr int stages = Queue::count;
    constexpr bool bulk = Block::bulk_terms;
    const auto copy_group = [&](int tile, unsigned place) {
      if (tile < count) copy<bulk>(tile, place, block);
      commit_group();
    };
    const auto await_terms = [&](int i) {
      if constexpr (bulk) NV_IF_TARGET(NV_PROVIDES_SM_90, (if (i < count) queue.await(i);))
    };
    for (int i = 0; i < stages; ++i) copy_group(i, i);
    wait_group<stages - 2>();  // tiles 0 and 1 are there
    await_terms(0);
    __syncthreads();
    unsigned place = 0;
    for (int i = 0; i < count; ++i) {
      if (i > 0) wait_group<stages - 4>();
      await_terms(i + 1);
      step_barrier<Division>();
      if (i < 2) continue;
      copy_group(i - 2 + stages, place);
      if (++place == stages) place = 0;
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

}  // namespace deltasane::kernel::cuda
