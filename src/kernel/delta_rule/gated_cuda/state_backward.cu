// Backward over the states, from the last tile to the first; see terms.cuh for the equations. Warps
// have the roles of state_forward.cu; those that hold the gradient of the state also do SANE's part.
#include "base/choose.h"
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/gated_cuda/blocked_matrix.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/stages.cuh"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <Decay decay, int keys, int groups>
using BackwardStage = Stage<decay, keys, groups, gated_planes>;

template <Decay decay, int keys, int groups>
struct BackwardMemory {
  static constexpr int stages = stage_count<BackwardStage<decay, keys, groups>>;
  BackwardStage<decay, keys, groups> stage[stages];
  struct Group {
    PartialProducts<group_warps<keys>> carried;  // of H K_out'
    PartialProducts<1> read;                     // dY' P diag(beta)
    float dtau[group_warps<keys>];
  } group[2][groups];  // of the tiles in turn
};

// dV of 16 rows, transposed.
template <class Stage, class Group>
__device__ Accumulator value_gradient(const Stage& stage, const Group& shared,
                                      const FragmentB<gated_planes>& inverse) {
  Accumulator sum = shared.carried.sum();
  stage.scale_out(sum);
  sum.add(shared.read.sum());
  SplitAccumulator<1> sums;
  sums.add(FragmentA<gated_planes>(sum), inverse);
  return sums.total();
}

// A state after SANE: what a warp has of it, as two planes.
struct SavedFragment {
  uint32_t upper[2][4], lower[2][4];
  template <class Use>  // use(half, piece, entry, number)
  __device__ void each(Use&& use) const {
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t x = upper[h][i], y = lower[h][i];
        use(h, i / 2, i % 2 * 2, __uint_as_float(x << 16) + __uint_as_float(y << 16));
        use(h, i / 2, i % 2 * 2 + 1,
            __uint_as_float(x & 0xffff0000u) + __uint_as_float(y & 0xffff0000u));
      }
  }
};

// Through S = tau tanh(...): G in place; returns this lane's part of tau's gradient.
template <int keys>
__device__ float through_tanh(StateFragment<keys>& G, const SavedFragment& S, float tau) {
  const float inverse = 1.0f / tau;
  float largest = 0, sum = 0;
  S.each([&](int, int, int, float s) { largest = fmaxf(largest, fabsf(s)); });
  largest *= inverse;
  const auto apply = [&](auto&& derivative) {
    S.each([&](int h, int piece, int i, float s) {
      const float x = s * inverse, q = x * x;
      float& gradient = G.half[h].c[piece][i];
      sum = fmaf(gradient * x, q * derivative(q), sum);
      gradient = state_derivative(q, gradient);
    });
  };
  constexpr float tiny = 0.3f;  // tanh of the limit of tau_derivative_tiny is 0.3027
  if (__all_sync(~0u, largest < tiny))
    apply([](float q) { return tau_derivative_tiny(q); });
  else if (__all_sync(~0u, largest < moderate_limit))
    apply([](float q) { return tau_derivative_moderate(q); });
  else
    apply([](float q) { return tau_derivative_any(q); });
  return sum;
}

template <Decay decay, int keys, int groups>
struct BackwardBlock {
  const GatedPass& pass;
  BackwardMemory<decay, keys, groups>& memory;
  Tiles tiles;
  int64_t sequence, head, of_head;
  int first_row;
  int64_t all_tiles;

  __device__ bool neutralized(int tile) const {
    return tile >= 0 && pass.op.tau && tiles.ends_chunk(tile);
  }
  __device__ int64_t chunk(int tile) const {  // of this head, in tau
    const int64_t chunks = chunks_ending(pass.op.position, pass.op.time, tile_size);
    return (sequence * chunks + tile) * pass.op.heads + head;
  }

  // The warps that hold the gradient.
  __device__ void carry(int group, int warp) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, column = warp * warp_columns;
    const int count = tiles.count();
    const int64_t entries = op.values * keys;
    StateFragment<keys> G;
    const float* const dfinal = pass.gradient.dfinal;
    G.load(dfinal ? dfinal + of_head * entries : nullptr, row, column);
    SavedFragment after;
    float bound = 0;
    const auto load = [&](int tile) {
      bound = 0;
      if (!neutralized(tile)) return;
      bound = __ldg(op.tau + chunk(tile));
      const int64_t from = (of_head * (all_tiles + 1) + tile + 1) * entries;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        blocked(static_cast<const bf16*>(pass.state_upper), from, keys)
            .load(after.upper[h], row, column + 16 * h);
        blocked(static_cast<const bf16*>(pass.state_lower), from, keys)
            .load(after.lower[h], row, column + 16 * h);
      }
    };
    load(count - 1);
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      const int tile = count - 1 - i;
      const auto& stage = memory.stage[i % memory.stages];
      auto& shared = memory.group[i % 2][group];
      if (bound > 0) {
        const float sum = warp_sum(through_tanh(G, after, bound));
        if (threadIdx.x % 32 == 0) shared.dtau[warp] = sum;
      }
      load(tile - 1);
      {
        const auto saved = blocked(pass.dstate, (of_head * all_tiles + tile) * entries, keys);
        SplitAccumulator<1> carried;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const FragmentA<gated_planes> part(G.half[h]);
          saved.store(part.plane[0], row, column + 16 * h);
          FragmentB<std::remove_cvref_t<decltype(stage.k_out())>::planes> k;
          k.template load<Layout::transposed>(stage.k_out(), column + 16 * h, 0);
          carried.add(part, k);
        }
        shared.carried.store(warp, carried.total());
      }
      // dY' Q_in does not depend on H.
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      Accumulator read[2];
      {
        constexpr int planes = std::remove_cvref_t<decltype(stage.q_in())>::planes;
        // With one decay for all channels, dy is multiplied by it.
        FragmentA<3 - planes> scaled;
        if constexpr (decay == Decay::per_head) {
          Accumulator x = dy.to_accumulator();
          stage.scale_in(x);
          scaled = FragmentA<3 - planes>(x);
        } else {
          scaled = dy;
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          FragmentB<planes> q;
          q.template load<Layout::row_major>(stage.q_in(), 0, column + 16 * h);
          SplitAccumulator<1> sums;
          sums.add(scaled, q);
          read[h] = sums.total();
        }
      }
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      __syncthreads();
      Accumulator dv = value_gradient(stage, shared, inverse);
      stage.scale_in(dv);
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int e = 0; e < 4; ++e) dv.c[p][e] = -dv.c[p][e];
      const FragmentA<gated_planes> erased(dv);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        FragmentB<std::remove_cvref_t<decltype(stage.k_in())>::planes> k;
        k.template load<Layout::row_major>(stage.k_in(), 0, column + 16 * h);
        SplitAccumulator<1> added;
        added.large = read[h];
        added.add(erased, k);
        G.decay_and_add(h, stage, column + 16 * h, added.total());
      }
    }
    if (float* const to = pass.gradient.dinitial) G.store(to + of_head * entries, row, column);
  }

  // The warp that writes a group's results, and prepares dY' P diag(beta) of the next tile.
  __device__ void write(int group) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    bf16* const to = pass.gradient.dv + rows.first + row;
    const auto prepare = [&](int i) {
      const auto& stage = memory.stage[i % memory.stages];
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      FragmentB<gated_planes> read;
      read.template load<Layout::row_major>(stage.terms.read, 0, 0);
      SplitAccumulator<1> sums;
      sums.add(dy, read);
      memory.group[i % 2][group].read.store(0, sums.total());
    };
    __syncthreads();
    if (count > 0) prepare(0);
    for (int i = 0; i < count; ++i) {
      __syncthreads();
      const int tile = count - 1 - i;
      const auto& stage = memory.stage[i % memory.stages];
      const auto& shared = memory.group[i % 2][group];
      if (i + 1 < count) prepare(i + 1);
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      const Accumulator dv = value_gradient(stage, shared, inverse);
      store_transposed(dv, to, rows.step, tiles, tiles.first(tile));
      const FragmentA<gated_planes> planes(dv);
      const int64_t plane = op.values * tile_size;
      const int64_t from = (of_head * all_tiles + tile) * gated_planes * plane;
#pragma unroll
      for (int p = 0; p < gated_planes; ++p)
        blocked(pass.dvalues, from + p * plane, tile_size).store(planes.plane[p], row, 0);
      if (neutralized(tile) && threadIdx.x % 32 == 0) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < group_warps<keys>; ++w) sum += shared.dtau[w];
        pass.dtau_parts[chunk(tile) * (op.values / row_group) + row / row_group] = sum;
      }
    }
  }
};

template <Decay decay, int keys, int groups>
__global__ __launch_bounds__(Roles<keys, groups>::threads) void backward_kernel(
    const __grid_constant__ GatedPass pass, int all_tiles) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<BackwardMemory<decay, keys, groups>*>(dynamic_shared);
  const GatedRule& op = pass.op;
  const int row_blocks = int(op.values) / (groups * row_group);
  const int64_t of_head = blockIdx.x / row_blocks;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int first_row = blockIdx.x % row_blocks * groups * row_group, warp = threadIdx.x / 32;
  const Tiles tiles(op, sequence);
  using AllRoles = Roles<keys, groups>;
  BackwardBlock<decay, keys, groups> block{pass, memory,    tiles,    sequence,
                                           head, of_head, first_row, all_tiles};
  if (warp < AllRoles::state_warps)
    return block.carry(warp / group_warps<keys>, warp % group_warps<keys>);
  if (warp < AllRoles::state_warps + groups) return block.write(warp - AllRoles::state_warps);
  using Terms = TileTerms<decay, keys>;
  const Rows key = key_rows(op, sequence, head), value = head_rows(op, sequence, head, op.values);
  const int count = tiles.count();
  TileLoader<BackwardStage<decay, keys, groups>, Terms>{
      memory.stage,
      static_cast<const Terms*>(pass.terms) + of_head * all_tiles,
      op.k + key.first,
      op.r + key.first,
      pass.gradient.dy + value.first + first_row,
      key.step,
      value.step,
      tiles}
      .run(count, [count](int i) { return count - 1 - i; });
}

template <Decay decay, int keys, int groups>
void run(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const size_t shared = sizeof(BackwardMemory<decay, keys, groups>);
  expect_shared(shared, gpu);
  launch(backward_kernel<decay, keys, groups>,
         {unsigned(op.batch * op.heads * op.values / (groups * row_group)),
          unsigned(Roles<keys, groups>::threads), shared},
         gpu, pass, int(tile_count(op)));
}

}  // namespace

void gated_state_backward(const GatedPass& pass, const Gpu& gpu) {
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
