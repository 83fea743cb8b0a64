// Backward over the states, from the last tile to the first; see terms.cuh for the equations. Warps
// have the roles of state_forward.cu; those that hold the gradient of the state also do SANE's part.
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/gated_cuda/saved_states.cuh"
#include "kernel/delta_rule/gated_cuda/state_pass.cuh"

namespace deltasane::kernel::cuda {
namespace {

template <Decay decay_, class Division_>
struct BackwardBlock : HeadRows {
  using Division = Division_;
  static constexpr bool solved = solved_terms<decay_>;
  using Terms = TileTerms<decay_, Division::keys>;
  using TileStage = Stage<decay_, Division, gated_planes>;
  static constexpr int keys = Division::keys, split = Division::split;
  static constexpr int in_planes = solved ? gated_planes : 1,
                       out_planes = decay_ == Decay::per_head ? 1 : gated_planes;
  // Saved states are in shared memory too, where a warp holds whole rows.
  static constexpr int stages = stages_within<TileStage>(split == 1 ? 76 : 100);
  struct Memory {
    StageQueue<TileStage, Division::state_warps + Division::writers, stages> queue;
    struct Group {
      PartialProducts<split> carried;                      // of H K_out'
      PartialProducts<1> read;                             // dY' P diag(beta)
      float dtau[split];                                   // of the tile before
    } group[2][Division::writers ? Division::groups : 1];  // of the tiles in turn
    SavedRows<keys> saved[split == 1 ? Division::groups : 1];
    __device__ void init() {
      queue.init();
      if constexpr (split == 1)
        for (auto& one : saved) one.init();
    }
  };
  Memory& memory;

  __device__ const bf16* values() const { return pass.gradient.dy; }
  __device__ int tile_of(int i) const { return tiles.count() - 1 - i; }

  // Of the state after a tile: where the block's rows from `row` on begin.
  __device__ int64_t state_after(int tile, int row) const {
    return ((of_head * (all_tiles + 1) + tile + 1) * pass.op.values + row) * keys;
  }
  // By the warp that copies tiles, some of them ahead.
  __device__ void prefetch(int tile) const {
    if (!neutralized(tile)) return;
    const int64_t from = state_after(tile, first_row);
    constexpr uint32_t bytes = Division::rows * keys * sizeof(bf16);
    NV_IF_TARGET(NV_PROVIDES_SM_90, (if (threadIdx.x % 32 == 0) {
                   prefetch_l2(pass.state_upper + from, bytes);
                   prefetch_l2(pass.state_lower + from, bytes);
                 }))
  }

  // dY' P diag(beta)
  __device__ static Accumulator read_gradient(const TileStage& stage, const FragmentA<1>& dy) {
    FragmentB<gated_planes> read;
    read.template load<Layout::row_major>(stage.terms.read, 0, 0);
    SplitAccumulator<1> sums;
    sums.add(dy, read);
    return sums.total();
  }
  // dE of 16 rows, transposed, given H K_out' and the one above.
  __device__ static Accumulator missing_gradient(const TileStage& stage, Accumulator carried,
                                                 const Accumulator& read) {
    stage.scale_out(carried);
    carried.add(read);
    return carried;
  }
  // dV, likewise.
  __device__ static Accumulator value_gradient(const FragmentA<gated_planes>& missing,
                                               const FragmentB<gated_planes>& inverse) {
    SplitAccumulator<2> sums;
    sums.add(missing, inverse);
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

  using State = StateFragment<Division>;
  __device__ void load_last(State& G, int row, int column) const {
    const float* const dfinal = pass.gradient.dfinal;
    G.load(dfinal ? dfinal + of_head * pass.op.values * keys : nullptr, row, column);
  }
  __device__ void finish(State& G, int row, int column) const {
    if (float* const to = pass.gradient.dinitial)
      G.store(to + of_head * pass.op.values * keys, row, column);
  }
  __device__ auto saved_gradient(int tile) const {
    return blocked(pass.dstate, (of_head * all_tiles + tile) * pass.op.values * keys, keys);
  }
  // With one decay for all channels, dy is multiplied by it.
  static constexpr int dy_planes = decay_ == Decay::per_head ? gated_planes : 1;
  __device__ static FragmentA<dy_planes> scaled(const TileStage& stage, const FragmentA<1>& dy) {
    if constexpr (decay_ == Decay::per_head) {
      Accumulator x = dy.to_accumulator();
      stage.scale_in(x);
      return FragmentA<dy_planes>(x);
    } else {
      return dy;
    }
  }
  __device__ static Accumulator negative(Accumulator x) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) x.c[p][i] = -x.c[p][i];
    return x;
  }

  // A warp that holds whole rows. G through SANE and its product with K_out, part by part;
  // derivative(square): P(q) of neutralize_derivatives.cuh. Returns this lane's part of tau's
  // gradient.
  template <bool neutralized, class Derivative>
  __device__ float multiply(State& G, const SavedRows<keys>& saved, const TauOfTile& tau,
                            const TileStage& stage, int tile, int row, SplitAccumulator<1>& carried,
                            Derivative&& derivative) const {
    const auto to = saved_gradient(tile);
    float sums[4] = {};
#pragma unroll
    for (int n = 0; n < State::parts; ++n) {
      if constexpr (neutralized) {
        SavedPart after;
        saved.load(after.upper, 0, n), saved.load(after.lower, 1, n);
        after.each([&](int piece, int i, float s) {
          float& gradient = G.part[n].c[piece][i];
          const float square = s * s, product = gradient * square;
          sums[i] = fmaf(product * s, derivative(square), sums[i]);
          gradient = fmaf(product, -tau.unit, gradient);
        });
      }
      const FragmentA<gated_planes> part(G.part[n]);
      to.store(part.plane[0], row, 16 * n);
      FragmentB<out_planes> k_out;
      k_out.template load<Layout::transposed>(stage.k_out(), 16 * n, 0);
      carried.add(part, k_out);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __device__ void carry_rows(int group) {
    const int row = first_row + group * row_group, count = tiles.count();
    State G;
    load_last(G, row, 0);
    SavedRows<keys>& saved = memory.saved[group];
    int copies = 0;
    float bound = tau(count - 1);
    if (bound > 0) saved.copy(pass, state_after(count - 1, row));
    for (int i = 0; i < count; ++i) {
      const int tile = tile_of(i);
      const float next_bound = tau(tile - 1);
      const TileStage& stage = memory.queue.wait(i);
      SplitAccumulator<1> carried;
      const TauOfTile of_tile(bound);
      float dtau = 0;
      const auto multiply_with = [&](auto&& derivative) {
        return multiply<true>(G, saved, of_tile, stage, tile, row, carried, derivative);
      };
      if (bound > 0) {
        saved.wait(copies++ % 2);
        LargestMagnitude largest;
#pragma unroll
        for (int n = 0; n < State::parts; ++n) {
          uint32_t upper[4];
          saved.load(upper, 0, n);
          largest.add(upper);
        }
        if (largest.all_below(of_tile.tiny_bound()))
          dtau = multiply_with([&](float square) { return of_tile.tiny(square); });
        else if (largest.all_below(of_tile.moderate_bound()))
          dtau = multiply_with([&](float square) { return of_tile.moderate(square); });
        else
          dtau = multiply_with([&](float square) { return of_tile.any(square); });
      } else {
        multiply<false>(G, saved, of_tile, stage, tile, row, carried, [](float) { return 0.0f; });
      }
      if (next_bound > 0) saved.copy(pass, state_after(tile - 1, row));
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      const Accumulator dE = missing_gradient(stage, carried.total(), read_gradient(stage, dy));
      Accumulator dv = value_gradient(FragmentA<gated_planes>(dE), inverse);
      store(tile, row, dv);
      if (bound > 0) store_tau(tile, row, of_tile.of_sum(warp_sum(dtau)));
      if constexpr (!solved) stage.scale_in(dv);
      const FragmentA<gated_planes> erased(negative(solved ? dE : dv));
      const FragmentA<dy_planes> read = scaled(stage, dy);
#pragma unroll
      for (int n = 0; n < State::parts; ++n) {
        FragmentB<out_planes> q;
        FragmentB<in_planes> k;
        q.template load<Layout::row_major>(stage.q_in(), 0, 16 * n);
        k.template load<Layout::row_major>(stage.k_in(), 0, 16 * n);
        SplitAccumulator<0> added;
        added.add(read, q);
        added.add(erased, k);
        G.decay_and_add(n, stage, 16 * n, added.total());
      }
      memory.queue.release(i);
      bound = next_bound;
    }
    finish(G, row, 0);
  }

  // What G is multiplied with in SANE, of some columns: made while a warp waits for others.
  struct Derivatives {
    static constexpr int parts = State::parts;
    float by_state[parts][2][4], by_tau[parts][2][4];  // by_tau: times tau^3
    float of_sum;

    __device__ void make(const SavedPart (&after)[parts], const TauOfTile& tau) {
      of_sum = tau.of_sum(1);
#pragma unroll
      for (int n = 0; n < parts; ++n)
        after[n].each([&](int piece, int i, float s) {
          const float square = s * s;
          by_state[n][piece][i] = fmaf(square, -tau.unit, 1.0f);
          by_tau[n][piece][i] = square * s * tau.tiny(square);
        });
    }
    __device__ static bool all_tiny(const SavedPart (&after)[parts], const TauOfTile& tau) {
      LargestMagnitude largest;
#pragma unroll
      for (int n = 0; n < parts; ++n) largest.add(after[n].upper);
      return largest.all_below(tau.tau > 0 ? tau.tiny_bound() : HUGE_VALF);
    }
    // By tau, where not all entries are tiny, which is seldom.
    __device__ void make_again(const SavedPart (&after)[parts], const TauOfTile& tau) {
#pragma unroll
      for (int n = 0; n < parts; ++n)
        after[n].each([&](int piece, int i, float s) {
          const float square = s * s;
          by_tau[n][piece][i] = square * s * tau.any(square);
        });
    }
    // G in place; returns this lane's part of tau's gradient.
    __device__ float apply(State& G) const {
      float sums[4] = {};
#pragma unroll
      for (int n = 0; n < parts; ++n)
#pragma unroll
        for (int p = 0; p < 2; ++p)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& gradient = G.part[n].c[p][i];
            sums[i] = fmaf(gradient, by_tau[n][p][i], sums[i]);
            gradient *= by_state[n][p][i];
          }
      return ((sums[0] + sums[1]) + (sums[2] + sums[3])) * of_sum;
    }
  };

  // A warp that holds some columns: see forward.
  template <bool sane>
  __device__ void carry_columns(int group, int warp) {
    constexpr int parts = State::parts;
    const int row = first_row + group * row_group, column = warp * Division::columns,
              count = tiles.count();
    State G;
    load_last(G, row, column);
    constexpr int ahead = Division::loads_ahead ? parts : 1;
    FragmentB<out_planes> k_out[ahead];
    FragmentB<in_planes> k_in[ahead];
    SplitAccumulator<0> added[ahead];  // of the next state: dY' Q_in, then also -dE' W
    FragmentA<dy_planes> read;
    FragmentB<gated_planes> inverse;  // not where solved
    const auto load_k_out = [&](const TileStage& stage, int n) {
      k_out[n % ahead].template load<Layout::transposed>(stage.k_out(), column + 16 * n, 0);
    };
    const auto begin_added = [&](const TileStage& stage, int n) {
      FragmentB<out_planes> q;
      q.template load<Layout::row_major>(stage.q_in(), 0, column + 16 * n);
      k_in[n % ahead].template load<Layout::row_major>(stage.k_in(), 0, column + 16 * n);
      added[n % ahead] = {};
      added[n % ahead].add(read, q);
    };
    const auto load = [&](const TileStage& stage) {
      FragmentA<1> dy;
      dy.template load<Layout::transposed>(stage.values, group * row_group, 0);
      read = scaled(stage, dy);
      if constexpr (!solved) inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      if constexpr (Division::loads_ahead)
#pragma unroll
        for (int n = 0; n < parts; ++n) load_k_out(stage, n), begin_added(stage, n);
    };
    // With SANE: the state after the next tile, and its tau.
    SavedPart after[parts];
    float bound = 0;
    const auto load_state = [&](int tile) {
      bound = tau(tile);
      const int64_t from = state_after(max(tile, 0), 0);
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        blocked(static_cast<const bf16*>(pass.state_upper), from, keys)
            .load(after[n].upper, row, column + 16 * n);
        blocked(static_cast<const bf16*>(pass.state_lower), from, keys)
            .load(after[n].lower, row, column + 16 * n);
      }
    };
    Derivatives derivatives;
    float dtau = 0;  // of the tile before
    if constexpr (sane) {
      load_state(count - 1);
      const TauOfTile first(bound);
      derivatives.make(after, first);
      if (!derivatives.all_tiny(after, first)) derivatives.make_again(after, first);
      if constexpr (Division::loads_ahead) load_state(count - 2);
    }
    load(memory.queue.wait(0));
    for (int i = 0; i < count; ++i) {
      const int tile = tile_of(i);
      const TileStage& stage = memory.queue.waited_for(i);
      auto& shared = memory.group[i % 2][group];
      if (sane && threadIdx.x % 32 == 0) shared.dtau[warp] = dtau;
      float sum = 0;
      if constexpr (sane) sum = derivatives.apply(G);
      SplitAccumulator<1> carried[2];
      FragmentA<gated_planes> gradient[parts];
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if (!Division::loads_ahead) load_k_out(stage, n);
        gradient[n] = FragmentA<gated_planes>(G.part[n]);
        carried[n % 2].add(gradient[n], k_out[n % ahead]);
      }
      Accumulator product = carried[0].total();
      product.add(carried[1].total());
      shared.carried.store(warp, product);
      group_barrier<Division>(group);
      const auto to = saved_gradient(tile);
      Accumulator erasing = missing_gradient(stage, shared.carried.sum(), shared.read.sum());
      if constexpr (!solved) {
        erasing = value_gradient(FragmentA<gated_planes>(erasing), inverse);
        stage.scale_in(erasing);
      }
      const FragmentA<gated_planes> erased(negative(erasing));
      if constexpr (Division::loads_ahead)
#pragma unroll
        for (int n = 0; n < parts; ++n) added[n].add(erased, k_in[n]);
#pragma unroll
      for (int n = 0; n < parts; ++n) to.store(gradient[n].plane[0], row, column + 16 * n);
      // In the time of the products: SANE's part of the next tile.
      if (sane && !Division::loads_ahead) load_state(tile - 1);
      const TauOfTile next(bound);
      if constexpr (sane) {
        derivatives.make(after, next);
        dtau = warp_sum(sum);
      }
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if constexpr (!Division::loads_ahead) begin_added(stage, n), added[0].add(erased, k_in[0]);
        G.decay_and_add(n, stage, column + 16 * n, added[n % ahead].total());
      }
      memory.queue.release(i);
      if constexpr (sane) {
        if (!derivatives.all_tiny(after, next)) derivatives.make_again(after, next);
        if constexpr (Division::loads_ahead) load_state(tile - 2);
      }
      if (i + 1 < count) load(memory.queue.wait(i + 1));
    }
    if (sane && threadIdx.x % 32 == 0) memory.group[count % 2][group].dtau[warp] = dtau;
    group_barrier<Division>(group);
    finish(G, row, column);
  }

  // The warps that hold the gradient.
  __device__ void carry(int group, int warp) {
    if constexpr (split == 1)
      carry_rows(group);
    else
      taus ? carry_columns<true>(group, warp) : carry_columns<false>(group, warp);
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
    const auto finish_tau = [&](int i) {  // of the i-th tile
      if (i < 0 || !neutralized(tile_of(i))) return;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < split; ++w) sum += memory.group[(i + 1) % 2][group].dtau[w];
      store_tau(tile_of(i), row, sum);
    };
    prepare(0);
    for (int i = 0; i < count; ++i) {
      const TileStage& stage = memory.queue.wait(i);
      FragmentB<gated_planes> inverse;
      inverse.template load<Layout::row_major>(stage.terms.inverse, 0, 0);
      group_barrier<Division>(group);
      if (i + 1 < count) prepare(i + 1);
      const auto& shared = memory.group[i % 2][group];
      const FragmentA<gated_planes> dE(
          missing_gradient(stage, shared.carried.sum(), shared.read.sum()));
      store(tile_of(i), row, value_gradient(dE, inverse));
      memory.queue.release(i);
      finish_tau(i - 1);
    }
    group_barrier<Division>(group);
    finish_tau(count - 1);
  }
};

}  // namespace

void gated_state_backward(const GatedPass& pass, const Gpu& gpu) {
  launch_states<BackwardBlock>(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
