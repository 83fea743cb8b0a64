// Forward over the states, tile after tile. A block has some rows of a head's state; each group of
// 16 rows has a warp for every 32 columns, which hold the state in registers, and one that writes
// the results. They meet once a tile, to add up the products with the state over all columns.
#include <algorithm>

#include "base/choose.h"
#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/gated_cuda/blocked_matrix.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/stages.cuh"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <Decay decay, int keys, int groups>
using ForwardStage = Stage<decay, keys, groups, 1>;

template <Decay decay, int keys, int groups>
struct ForwardMemory {
  using Partial = PartialProducts<group_warps<keys>>;
  static constexpr int stages = stage_count<ForwardStage<decay, keys, groups>>;
  ForwardStage<decay, keys, groups> stage[stages];
  struct Group {
    Partial recalled, read;
  } group[2][groups];  // of the tiles in turn
};

// E of 16 rows, transposed, given the sum of S0 K_in'.
template <class Stage>
__device__ Accumulator missing_values(const Stage& stage, Accumulator recalled, int row,
                                      const FragmentB<gated_planes>& inverse) {
  FragmentA<1> v;
  v.template load<Layout::transposed>(stage.values, row, 0);
  Accumulator difference = v.to_accumulator();
  stage.scale_in(recalled);
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) difference.c[p][i] -= recalled.c[p][i];
  SplitAccumulator<1> sums;
  sums.add(FragmentA<gated_planes>(difference), inverse);
  return sums.total();
}

template <Decay decay, int keys, int groups>
struct ForwardBlock {
  const GatedPass& pass;
  ForwardMemory<decay, keys, groups>& memory;
  Tiles tiles;
  int64_t sequence, head, of_head;  // of_head: of all sequences' heads
  int first_row;                    // of the block
  int64_t all_tiles;                // of the longest sequence

  // The warps that hold the state.
  __device__ void carry(int group, int warp) {
    const GatedRule& op = pass.op;
    const int values = int(op.values), row = first_row + group * row_group;
    const int column = warp * warp_columns;
    StateFragment<keys> S;
    S.load(op.initial ? op.initial + of_head * values * keys : nullptr, row, column);
    const float* const tau = op.tau ? op.tau + (sequence * chunks_ending(op.position, op.time, 16)) *
                                                   op.heads + head
                                    : nullptr;
    const auto tau_of = [&](int tile) {
      return tau && tiles.ends_chunk(tile) ? __ldg(tau + tile * op.heads) : 0.0f;
    };
    const int count = tiles.count();
    float bound = tau_of(0);
    __syncthreads();
    for (int tile = 0; tile < count; ++tile) {
      const auto& stage = memory.stage[tile % memory.stages];
      auto& shared = memory.group[tile % 2][group];
      const float next_bound = tau_of(tile + 1);
      FragmentA<gated_planes> state[2] = {FragmentA<gated_planes>(S.half[0]),
                                          FragmentA<gated_planes>(S.half[1])};
      if (pass.state_upper) save(state, tile, row, column);
      {
        SplitAccumulator<1> recalled, read;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          FragmentB<std::remove_cvref_t<decltype(stage.k_in())>::planes> k;
          k.template load<Layout::transposed>(stage.k_in(), column + 16 * h, 0);
          recalled.add(state[h], k);
        }
        shared.recalled.store(warp, recalled.total());
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          FragmentB<1> q;
          q.template load<Layout::transposed>(stage.q_in(), column + 16 * h, 0);
          read.add(state[h], q);
        }
        shared.read.store(warp, read.total());
      }
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::transposed>(stage.terms.inverse, 0, 0);
      FragmentB<std::remove_cvref_t<decltype(stage.k_out())>::planes> k[2];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        k[h].template load<Layout::row_major>(stage.k_out(), 0, column + 16 * h);
      __syncthreads();
      Accumulator missing =
          missing_values(stage, shared.recalled.sum(), group * row_group, inverse);
      stage.scale_out(missing);
      const FragmentA<gated_planes> written(missing);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        SplitAccumulator<1> added;
        added.add(written, k[h]);
        S.decay_and_add(h, stage, column + 16 * h, added.total());
      }
      if (bound > 0) Tanh(bound).apply([&](auto&& map) { S.each(map); });
      bound = next_bound;
    }
    if (pass.state_upper) {
      const FragmentA<gated_planes> state[2] = {FragmentA<gated_planes>(S.half[0]),
                                                FragmentA<gated_planes>(S.half[1])};
      save(state, count, row, column);
    }
    if (op.final_state) S.store(op.final_state + of_head * values * keys, row, column);
  }
  __device__ void save(const FragmentA<gated_planes> (&state)[2], int tile, int row,
                       int column) const {
    const int64_t from = (of_head * (all_tiles + 1) + tile) * pass.op.values * keys;
    const auto upper = blocked(pass.state_upper, from, keys);
    const auto lower = blocked(pass.state_lower, from, keys);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      upper.store(state[h].plane[0], row, column + 16 * h);
      lower.store(state[h].plane[1], row, column + 16 * h);
    }
  }

  // The warp that writes a group's results.
  __device__ void write(int group) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    bf16* const y = op.y ? op.y + rows.first + row : nullptr;
    __syncthreads();
    for (int tile = 0; tile < count; ++tile) {
      __syncthreads();
      const auto& stage = memory.stage[tile % memory.stages];
      const auto& shared = memory.group[tile % 2][group];
      FragmentB<gated_planes> inverse, read;
      inverse.template load<Layout::transposed>(stage.terms.inverse, 0, 0);
      const FragmentA<gated_planes> missing(
          missing_values(stage, shared.recalled.sum(), group * row_group, inverse));
      if (pass.missing) {
        const int64_t plane = op.values * tile_size;
        const int64_t from = (of_head * all_tiles + tile) * gated_planes * plane;
#pragma unroll
        for (int p = 0; p < gated_planes; ++p)
          blocked(pass.missing, from + p * plane, tile_size).store(missing.plane[p], row, 0);
      }
      if (!y) continue;
      read.template load<Layout::transposed>(stage.terms.read, 0, 0);
      SplitAccumulator<1> sums;
      sums.add(missing, read);
      Accumulator result = sums.total(), from_state = shared.read.sum();
      stage.scale_in(from_state);
      result.add(from_state);
      store_transposed(result, y, rows.step, tiles, tiles.first(tile));
    }
  }
};

template <Decay decay, int keys, int groups>
__global__ __launch_bounds__(Roles<keys, groups>::threads) void forward_kernel(
    const __grid_constant__ GatedPass pass, int all_tiles) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<ForwardMemory<decay, keys, groups>*>(dynamic_shared);
  const GatedRule& op = pass.op;
  const int row_blocks = int(op.values) / (groups * row_group);
  const int64_t of_head = blockIdx.x / row_blocks;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int first_row = blockIdx.x % row_blocks * groups * row_group, warp = threadIdx.x / 32;
  const Tiles tiles(op, sequence);
  using AllRoles = Roles<keys, groups>;
  ForwardBlock<decay, keys, groups> block{pass, memory,    tiles,    sequence,
                                          head, of_head, first_row, all_tiles};
  if (warp < AllRoles::state_warps)
    return block.carry(warp / group_warps<keys>, warp % group_warps<keys>);
  if (warp < AllRoles::state_warps + groups) return block.write(warp - AllRoles::state_warps);
  using Terms = TileTerms<decay, keys>;
  const Rows key = key_rows(op, sequence, head), value = head_rows(op, sequence, head, op.values);
  TileLoader<ForwardStage<decay, keys, groups>, Terms>{
      memory.stage,
      static_cast<const Terms*>(pass.terms) + of_head * all_tiles,
      op.k + key.first,
      op.r + key.first,
      op.v + value.first + first_row,
      key.step,
      value.step,
      tiles}
      .run(tiles.count(), [](int tile) { return tile; });
}

template <Decay decay, int keys, int groups>
void run(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const size_t shared = sizeof(ForwardMemory<decay, keys, groups>);
  expect_shared(shared, gpu);
  launch(forward_kernel<decay, keys, groups>,
         {unsigned(op.batch * op.heads * op.values / (groups * row_group)),
          unsigned(Roles<keys, groups>::threads), shared},
         gpu, pass, int(tile_count(op)));
}

}  // namespace

void gated_state_forward(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const bool shared_terms = shares_terms(op, gpu);
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    choose<0, 1>(op.rule == Rule::kda, "decays", [&]<int channels>() {
      constexpr Decay decay = channels ? Decay::per_channel : Decay::per_head;
      shared_terms ? run<decay, keys, 2>(pass, gpu) : run<decay, keys, 1>(pass, gpu);
    });
  });
}

}  // namespace deltasane::kernel::cuda
