// Backward over the states, from the last tile to the first; see terms.cuh for the equations. Warps
// have the roles of state_forward.cu; those that hold the gradient of the state also do SANE's part.
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/gated_cuda/saved_states.cuh"
#include "kernel/delta_rule/gated_cuda/state_pass.cuh"

namespace deltasane::kernel::cuda {
namespace {

// A tile with the state after it.
template <Decay decay, class Division>
struct SavedStage : Stage<decay, Division, gated_planes> {
  SavedTile<Division::keys> saved;
};

template <Decay decay_, class Division_>
struct BackwardBlock : HeadRows {
  using Division = Division_;
  static constexpr bool solved = solved_terms<decay_>, terms_beside = false;
  using Terms = TileTerms<decay_, Division::keys>;
  // Where the block is one group and a tile is small, saved states come with the tiles; otherwise each
  // warp copies its own.
  static constexpr bool saved_in_stage = Division::writers == 1 && decay_ == Decay::per_head;
  using TileStage = std::conditional_t<saved_in_stage, SavedStage<decay_, Division>,
                                       Stage<decay_, Division, gated_planes>>;
  static constexpr int keys = Division::keys, split = Division::split;
  static constexpr int in_planes = solved ? gated_planes : 1,
                       out_planes = decay_ == Decay::per_head ? 1 : gated_planes;
  // Saved states are in shared memory too, which leaves room for fewer stages where a warp holds whole
  // rows.
  static constexpr bool in_step = false;  // of the loader with the others
  static constexpr int saved_turns = Division::loads_ahead ? 2 : 1;
  using Saved = SavedRows<keys, Division::columns, saved_turns>;
  static constexpr int stages = stages_within<TileStage>(split == 1 ? 76 : 100);
  struct Memory {
    StageQueue<TileStage, 32 * Division::loader_warps, Division::state_warps + Division::writers,
               stages>
        queue;
    struct Group {
      PartialProducts<split> carried;                      // of H K_out'
      PartialProducts<1> read;                             // dY' P diag(beta)
      float dtau[split];                                   // of the tile before
    } group[2][Division::writers ? Division::groups : 1];  // of the tiles in turn
    // A warp's, in turns: where a tile takes little longer than a copy, two are in flight.
    Saved saved[saved_in_stage ? 1 : Division::state_warps][saved_turns];
    __device__ void init() {
      queue.init();
      for (auto& of_warp : saved)
        for (Saved& one : of_warp) one.init();
    }
  };
  Memory& memory;

  __device__ const bf16* values() const { return pass.gradient.dy; }
  __device__ int tile_of(int i) const { return tiles.count() - 1 - i; }

  // Of the state after a tile: where the block's rows from `row` on begin.
  __device__ int64_t state_after(int tile, int row) const {
    return ((of_head * (all_tiles + 1) + tile + 1) * pass.op.values + row) * keys;
  }
  // By the threads that copy tiles, some of them ahead: the state after the tile, into L2 or the stage.
  template <int threads>
  __device__ void copy_saved(TileStage& to, int tile) const {
    if constexpr (saved_in_stage) {
      const int64_t from = state_after(tile, first_row);
      constexpr int pieces = 2 * SavedTile<keys>::half / 8;
      if (!taus) return;
      copy_contiguous<threads, pieces>(to.saved.plane[0], pass.state_upper + from);
      copy_contiguous<threads, pieces>(to.saved.plane[1], pass.state_lower + from);
    } else {
      prefetch(tile);
    }
  }
  __device__ void prefetch(int tile) const {
    if (!neutralized(tile) || threadIdx.x / 32 % Division::loader_warps != 0) return;
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
  __device__ float multiply(State& G, const Saved& saved, const TauOfTile& tau,
                            const TileStage& stage, int tile, int row, SplitAccumulator<1>& carried,
                            Derivative&& derivative) const {
    const auto to = saved_gradient(tile);
    float sums[4] = {};
#pragma unroll
    for (int n = 0; n < State::parts; ++n) {
      if constexpr (neutralized) {
        saved.part(16 * n).each([&](int piece, int i, float s) {
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
  template <class Loader>
  __device__ void carry_rows(int group, Loader& loader) {
    const int row = first_row + group * row_group, count = tiles.count();
    loader.begin(count, *this);
    State G;
    load_last(G, row, 0);
    Saved& saved = memory.saved[group][0];
    int copies = 0;
    float bound = tau(count - 1);
    if (bound > 0) saved.copy(pass, state_after(count - 1, row));
    for (int i = 0; i < count; ++i) {
      loader.next(i, count, *this);
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

    // As if all entries were tiny; returns the largest. part(n): of the state.
    template <class Part>
    __device__ LargestMagnitude make(const TauOfTile& tau, Part&& part) {
      of_sum = tau.of_sum(1);
      LargestMagnitude largest;
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        const SavedPart after = part(n);
        largest.add(after.upper);
        after.each([&](int piece, int i, float s) {
          const float square = s * s;
          by_state[n][piece][i] = fmaf(square, -tau.unit, 1.0f);
          by_tau[n][piece][i] = square * s * tau.tiny(square);
        });
      }
      return largest;
    }
    // By tau, where not all entries are tiny, which is seldom.
    template <class Part>
    __device__ void make_again(const TauOfTile& tau, Part&& part) {
#pragma unroll
      for (int n = 0; n < parts; ++n)
        part(n).each([&](int piece, int i, float s) {
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
    // With SANE: the states after the i-th tiles are copied while others are computed.
    auto& saved = memory.saved[saved_in_stage ? 0 : group * split + warp];
    const auto copy_state = [&](int i) {
      if constexpr (!saved_in_stage)
        saved[i % saved_turns].copy(pass, state_after(max(tile_of(i), 0), row) + 8 * column);
    };
    float bound = 0;  // tau of the next tile
    const auto load_bound = [&](int i) {
      if constexpr (!saved_in_stage) bound = tau(tile_of(i));
    };
    const auto part_of = [&](int i) {
      return [&, i](int n) {
        if constexpr (saved_in_stage)
          return memory.queue.waited_for(i).saved.part(column + 16 * n);
        else
          return saved[i % saved_turns].part(16 * n);
      };
    };
    Derivatives derivatives;
    float dtau = 0;  // of the tile before
    LargestMagnitude largest;
    const auto tau_of = [&](int i) {
      if constexpr (saved_in_stage)
        return TauOfTile(memory.queue.wait(i).terms.tiny.tau);
      else
        return TauOfTile(bound);
    };
    const auto make_derivatives = [&](int i, const TauOfTile& tau) {
      if constexpr (!saved_in_stage) saved[i % saved_turns].wait(i / saved_turns % 2);
      largest = derivatives.make(tau, part_of(i));
    };
    const auto check_derivatives = [&](int i, const TauOfTile& tau) {
      if (!largest.all_below(tau.tau > 0 ? tau.tiny_bound() : HUGE_VALF)) [[unlikely]]
        derivatives.make_again(tau, part_of(i));
    };
    if constexpr (sane) {
      for (int i = 0; i < saved_turns; ++i) copy_state(i);
      load_bound(0);
      const TauOfTile first = tau_of(0);
      make_derivatives(0, first), check_derivatives(0, first);
      copy_state(saved_turns), load_bound(1);
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
      group_barrier<Division, 1>(group);
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
      // In the time of the products: SANE's part of the next tile; after the last one, of the same.
      const int next = saved_in_stage ? min(i + 1, count - 1) : i + 1;
      const TauOfTile next_tau = sane ? tau_of(next) : TauOfTile(0);
      if constexpr (sane) {
        make_derivatives(next, next_tau);
        dtau = warp_sum(sum);
      }
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if constexpr (!Division::loads_ahead) begin_added(stage, n), added[0].add(erased, k_in[0]);
        G.decay_and_add(n, stage, column + 16 * n, added[n % ahead].total());
      }
      memory.queue.release(i);
      if constexpr (sane) {
        check_derivatives(next, next_tau);
        copy_state(next + saved_turns), load_bound(next + 1);
      }
      if (i + 1 < count) load(memory.queue.wait(i + 1));
    }
    if (sane && threadIdx.x % 32 == 0) memory.group[count % 2][group].dtau[warp] = dtau;
    group_barrier<Division, 1>(group);
    finish(G, row, column);
  }

  // The warps that hold the gradient.
  __device__ void carry(int group, int warp) {
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
      group_barrier<Division, 1>(group);
      if (i + 1 < count) prepare(i + 1);
      const auto& shared = memory.group[i % 2][group];
      const FragmentA<gated_planes> dE(
          missing_gradient(stage, shared.carried.sum(), shared.read.sum()));
      store(tile_of(i), row, value_gradient(dE, inverse));
      memory.queue.release(i);
      finish_tau(i - 1);
    }
    group_barrier<Division, 1>(group);
    finish_tau(count - 1);
  }
};

}  // namespace

void gated_state_backward(const GatedPass& pass, const Gpu& gpu) {
  launch_states<BackwardBlock>(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
