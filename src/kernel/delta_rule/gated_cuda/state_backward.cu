// Backward over the states, from the last tile to the first; see terms.cuh for the equations. Warps
// have the roles of state_forward.cu; those that hold the gradient of the state also do SANE's part.
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/gated_cuda/state_pass.cuh"

namespace deltasane::kernel::cuda {
namespace {

// A state after SANE: what a warp has of it, as two planes.
template <class Division>
struct SavedFragment {
  static constexpr int parts = Division::columns / 16;
  uint32_t upper[parts][4], lower[parts][4];

  __device__ void load(const GatedPass& pass, int64_t from, int row, int column) {
#pragma unroll
    for (int n = 0; n < parts; ++n) {
      blocked(static_cast<const bf16*>(pass.state_upper), from, Division::keys)
          .load(upper[n], row, column + 16 * n);
      blocked(static_cast<const bf16*>(pass.state_lower), from, Division::keys)
          .load(lower[n], row, column + 16 * n);
    }
  }
  template <class Use>  // use(part, piece, entry, number)
  __device__ void each(Use&& use) const {
#pragma unroll
    for (int n = 0; n < parts; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t x = upper[n][i], y = lower[n][i];
        use(n, i / 2, i % 2 * 2, __uint_as_float(x << 16) + __uint_as_float(y << 16));
        use(n, i / 2, i % 2 * 2 + 1,
            __uint_as_float(x & 0xffff0000u) + __uint_as_float(y & 0xffff0000u));
      }
  }
};

// Through S = tau tanh(...): G in place; returns this lane's part of tau's gradient.
template <class Division>
__device__ float through_tanh(StateFragment<Division>& G, const SavedFragment<Division>& S,
                              float tau) {
  const float inverse = 1.0f / tau, unit = inverse * inverse;
  float most[4] = {}, sums[4] = {};  // in chains of a quarter of the latency
#pragma unroll
  for (int n = 0; n < S.parts; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)  // the upper planes suffice, up to a 256th
      most[i] = fmaxf(most[i], fmaxf(fabsf(__uint_as_float(S.upper[n][i] << 16)),
                                     fabsf(__uint_as_float(S.upper[n][i] & 0xffff0000u))));
  const float largest =
      fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3])) * inverse * (1 + 0x1p-8f);
  const auto apply = [&](auto&& derivative) {
    S.each([&](int n, int piece, int i, float s) {
      float& gradient = G.part[n].c[piece][i];
      const float square = s * s, product = gradient * square;
      sums[i] = fmaf(product * s, derivative(square), sums[i]);
      gradient = fmaf(product, -unit, gradient);
    });
  };
  constexpr float tiny = 0.3f;  // the tanh of tiny_limit is 0.3027
  if (__all_sync(~0u, largest < tiny))
    apply([&](float square) { return tau_derivative_tiny(square, unit); });
  else if (__all_sync(~0u, largest < moderate_limit))
    apply([&](float square) { return tau_derivative_moderate(square * unit); });
  else
    apply([&](float square) { return tau_derivative_any(square * unit); });
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) * (unit * inverse);
}

template <Decay decay_, class Division_>
struct BackwardBlock : HeadRows {
  using Division = Division_;
  using Terms = TileTerms<decay_, Division::keys>;
  using TileStage = Stage<decay_, Division, gated_planes>;
  static constexpr int keys = Division::keys, columns = Division::columns, split = Division::split;
  static constexpr int k_planes = decay_ == Decay::per_head ? 1 : gated_planes;
  static constexpr int resident = Division::groups > 1 && keys <= 128 ? 2 : 1;
  struct Memory {
    StageQueue<TileStage, Division::state_warps + Division::writers> queue;
    struct Group {
      PartialProducts<split> carried;  // of H K_out'
      PartialProducts<1> read;         // dY' P diag(beta)
      float dtau[split];
    } group[2][Division::writers ? Division::groups : 1];  // of the tiles in turn
  };
  Memory& memory;

  __device__ const bf16* values() const { return pass.gradient.dy; }
  __device__ int tile_of(int i) const { return tiles.count() - 1 - i; }

  // dY' P diag(beta)
  __device__ static Accumulator read_gradient(const TileStage& stage, const FragmentA<1>& dy) {
    FragmentB<gated_planes> read;
    read.template load<Layout::row_major>(stage.terms.read, 0, 0);
    SplitAccumulator<1> sums;
    sums.add(dy, read);
    return sums.total();
  }
  // dV of 16 rows, transposed, given H K_out' and the one above.
  __device__ static Accumulator value_gradient(const TileStage& stage, Accumulator carried,
                                               const Accumulator& read,
                                               const FragmentB<gated_planes>& inverse) {
    stage.scale_out(carried);
    carried.add(read);
    SplitAccumulator<2> sums;
    sums.add(FragmentA<gated_planes>(carried), inverse);
    return sums.total();
  }
  __device__ void store(int tile, int row, const Accumulator& dv) const {
    const Rows rows = head_rows(pass.op, sequence, head, pass.op.values);
    store_transposed(dv, pass.gradient.dv + rows.first + row, rows.step, tiles, tiles.first(tile));
    save_rows(pass.dvalues, tile, row, FragmentA<gated_planes>(dv));
  }
  __device__ void store_tau(int tile, int row, float sum) const {
    if (threadIdx.x % 32 == 0)
      pass.dtau_parts[chunk(tile) * (pass.op.values / row_group) + row / row_group] = sum;
  }

  // The warps that hold the gradient.
  __device__ void carry(int group, int warp) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, column = warp * columns, count = tiles.count();
    const int64_t entries = op.values * keys;
    using State = StateFragment<Division>;
    State G;
    const float* const dfinal = pass.gradient.dfinal;
    G.load(dfinal ? dfinal + of_head * entries : nullptr, row, column);
    SavedFragment<Division> after;
    float bound = 0;
    const auto load = [&](int tile) {
      bound = tau(tile);
      if (bound > 0)
        after.load(pass, (of_head * (all_tiles + 1) + tile + 1) * entries, row, column);
    };
    load(count - 1);
    for (int i = 0; i < count; ++i) {
      const int tile = tile_of(i);
      if (bound > 0) {
        const float sum = warp_sum(through_tanh(G, after, bound));
        if constexpr (split == 1)
          store_tau(tile, row, sum);
        else if (threadIdx.x % 32 == 0)
          memory.group[i % 2][group].dtau[warp] = sum;
      }
      load(tile - 1);
      const TileStage& stage = memory.queue.wait(i);
      SplitAccumulator<1> carried;
      const auto saved = blocked(pass.dstate, (of_head * all_tiles + tile) * entries, keys);
#pragma unroll
      for (int n = 0; n < State::parts; ++n) {
        const FragmentA<gated_planes> part(G.part[n]);
        saved.store(part.plane[0], row, column + 16 * n);
        FragmentB<k_planes> k;
        k.template load<Layout::transposed>(stage.k_out(), column + 16 * n, 0);
        carried.add(part, k);
      }
      // What does not depend on the gradient is loaded before the warps meet.
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      FragmentB<k_planes> k[split > 1 ? State::parts : 1], q[split > 1 ? State::parts : 1];
      const auto load_part = [&](int n, int to) {
        q[to].template load<Layout::row_major>(stage.q_in(), 0, column + 16 * n);
        k[to].template load<Layout::row_major>(stage.k_in(), 0, column + 16 * n);
      };
      if constexpr (split > 1)
#pragma unroll
        for (int n = 0; n < State::parts; ++n) load_part(n, n);
      Accumulator dv;
      if constexpr (split > 1) {
        auto& shared = memory.group[i % 2][group];
        shared.carried.store(warp, carried.total());
        group_barrier<Division>(group);
        dv = value_gradient(stage, shared.carried.sum(), shared.read.sum(), inverse);
      } else {
        dv = value_gradient(stage, carried.total(), read_gradient(stage, dy), inverse);
        store(tile, row, dv);
      }
      stage.scale_in(dv);
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int e = 0; e < 4; ++e) dv.c[p][e] = -dv.c[p][e];
      const FragmentA<gated_planes> erased(dv);
      // With one decay for all channels, dy is multiplied by it.
      constexpr int dy_planes = decay_ == Decay::per_head ? gated_planes : 1;
      FragmentA<dy_planes> scaled;
      if constexpr (decay_ == Decay::per_head) {
        Accumulator x = dy.to_accumulator();
        stage.scale_in(x);
        scaled = FragmentA<dy_planes>(x);
      } else {
        scaled = dy;
      }
#pragma unroll
      for (int n = 0; n < State::parts; ++n) {
        const int at = split > 1 ? n : 0;
        if (split == 1) load_part(n, 0);
        SplitAccumulator<1> added;
        added.add(scaled, q[at]);
        added.add(erased, k[at]);
        G.decay_and_add(n, stage, column + 16 * n, added);
      }
      memory.queue.release(i);
    }
    if (float* const to = pass.gradient.dinitial) G.store(to + of_head * entries, row, column);
  }

  // The warp that writes a group's results, where several hold the gradient; it also prepares dY' P
  // diag(beta) of the next tile.
  __device__ void write(int group) {
    const int row = first_row + group * row_group, count = tiles.count();
    const auto prepare = [&](int i) {
      const TileStage& stage = memory.queue.wait(i);
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      memory.group[i % 2][group].read.store(0, read_gradient(stage, dy));
    };
    prepare(0);
    for (int i = 0; i < count; ++i) {
      const TileStage& stage = memory.queue.wait(i);
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      group_barrier<Division>(group);
      if (i + 1 < count) prepare(i + 1);
      const int tile = tile_of(i);
      const auto& shared = memory.group[i % 2][group];
      store(tile, row, value_gradient(stage, shared.carried.sum(), shared.read.sum(), inverse));
      memory.queue.release(i);
      if (!neutralized(tile)) continue;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < split; ++w) sum += shared.dtau[w];
      store_tau(tile, row, sum);
    }
  }
};

}  // namespace

void gated_state_backward(const GatedPass& pass, const Gpu& gpu) {
  launch_states<BackwardBlock>(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
