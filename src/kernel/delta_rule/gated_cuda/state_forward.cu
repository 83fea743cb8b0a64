// Forward over the states, tile after tile: warps hold rows of a head's state in registers. See
// terms.cuh for the equations, and stages.cuh for how a block divides its rows.
#include "kernel/delta_rule/gated_cuda/state_pass.cuh"

namespace deltasane::kernel::cuda {
namespace {

template <Decay decay_, class Division_>
struct ForwardBlock : HeadRows {
  using Division = Division_;
  using Terms = TileTerms<decay_, Division::keys>;
  using TileStage = Stage<decay_, Division, 1>;
  static constexpr int keys = Division::keys, columns = Division::columns, split = Division::split;
  static constexpr int k_planes = decay_ == Decay::per_head ? 1 : gated_planes;
  static constexpr int resident = Division::groups > 1 && keys <= 128 ? 2 : 1;
  struct Memory {
    StageQueue<TileStage, Division::state_warps + Division::writers> queue;
    struct Group {
      PartialProducts<split> recalled, read;
    } group[2][Division::writers ? Division::groups : 1];  // of the tiles in turn
  };
  Memory& memory;

  __device__ const bf16* values() const { return pass.op.v; }
  __device__ int tile_of(int i) const { return i; }

  // What of E does not depend on the state.
  struct Known {
    Accumulator v;
    FragmentB<gated_planes> inverse;
    __device__ Known(const TileStage& stage, int group) {
      FragmentA<1> bits;
      bits.template load<Layout::transposed>(stage.values, group * row_group, 0);
      v = bits.to_accumulator();
      inverse.template load<Layout::transposed>(stage.terms.inverse, 0, 0);
    }
  };
  // E of 16 rows, transposed, given S0 K_in'.
  __device__ static Accumulator missing_values(const TileStage& stage, const Known& known,
                                               Accumulator recalled) {
    stage.scale_in(recalled);
    Accumulator difference = known.v;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) difference.c[p][i] -= recalled.c[p][i];
    SplitAccumulator<2> sums;
    sums.add(FragmentA<gated_planes>(difference), known.inverse);
    return sums.total();
  }
  // P diag(beta) E, transposed.
  __device__ static Accumulator read_missing(const TileStage& stage,
                                             const FragmentA<gated_planes>& missing) {
    FragmentB<gated_planes> read;
    read.template load<Layout::transposed>(stage.terms.read, 0, 0);
    SplitAccumulator<1> sums;
    sums.add(missing, read);
    return sums.total();
  }

  __device__ void save(const FragmentA<gated_planes>& state, int tile, int row, int column) const {
    const int64_t from = (of_head * (all_tiles + 1) + tile) * pass.op.values * keys;
    blocked(pass.state_upper, from, keys).store(state.plane[0], row, column);
    blocked(pass.state_lower, from, keys).store(state.plane[1], row, column);
  }

  // The warps that hold the state.
  __device__ void carry(int group, int warp) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, column = warp * columns, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    using State = StateFragment<Division>;
    State S;
    S.load(op.initial ? op.initial + of_head * op.values * keys : nullptr, row, column);
    float bound = tau(0);
    // Where warps meet, what does not depend on the state is loaded before: of K_in in the tile
    // before.
    constexpr int ahead = split > 1 ? State::parts : 1;
    FragmentB<k_planes> k_in[ahead], k_out[ahead];
    FragmentB<1> q_in[ahead];
    const auto load_k_in = [&](const TileStage& stage, int n, int to) {
      k_in[to].template load<Layout::transposed>(stage.k_in(), column + 16 * n, 0);
    };
    const auto load_q_in = [&](const TileStage& stage, int n, int to) {
      q_in[to].template load<Layout::transposed>(stage.q_in(), column + 16 * n, 0);
    };
    const auto load_k_out = [&](const TileStage& stage, int n, int to) {
      k_out[to].template load<Layout::row_major>(stage.k_out(), 0, column + 16 * n);
    };
    const auto load_ahead = [&](int tile) {
      if constexpr (split > 1)
#pragma unroll
        for (int n = 0; n < ahead; ++n) load_k_in(memory.queue.wait(tile), n, n);
    };
    load_ahead(0);
    for (int tile = 0; tile < count; ++tile) {
      const float next_bound = tau(tile + 1);
      const TileStage& stage = memory.queue.wait(tile);
      SplitAccumulator<1> recalled, read;
      FragmentA<gated_planes> state[State::parts];
#pragma unroll
      for (int n = 0; n < State::parts; ++n) {
        state[n] = FragmentA<gated_planes>(S.part[n]);
        if constexpr (split == 1) {
          load_k_in(stage, n, 0), load_q_in(stage, n, 0);
          read.add(state[n], q_in[0]);
          if (pass.state_upper) save(state[n], tile, row, column + 16 * n);
        }
        recalled.add(state[n], k_in[split > 1 ? n : 0]);
      }
      const Known known(stage, group);
      if constexpr (split > 1)
#pragma unroll
        for (int n = 0; n < ahead; ++n) load_q_in(stage, n, n), load_k_out(stage, n, n);
      Accumulator missing;
      if constexpr (split > 1) {
        memory.group[tile % 2][group].recalled.store(warp, recalled.total());
        group_barrier<Division>(group);
        missing = memory.group[tile % 2][group].recalled.sum();
      } else {
        missing = recalled.total();
      }
      if constexpr (split > 1)
#pragma unroll
        for (int n = 0; n < State::parts; ++n) read.add(state[n], q_in[n]);
      missing = missing_values(stage, known, missing);
      if constexpr (split > 1) {
        memory.group[tile % 2][group].read.store(warp, read.total());
      } else if (pass.missing || op.y) {
        const FragmentA<gated_planes> planes(missing);
        if (pass.missing) save_rows(pass.missing, tile, row, planes);
        if (op.y) {
          Accumulator result = read.total();
          stage.scale_in(result);
          result.add(read_missing(stage, planes));
          store_transposed(result, op.y + rows.first + row, rows.step, tiles, tiles.first(tile));
        }
      }
      if (split > 1 && pass.state_upper)
#pragma unroll
        for (int n = 0; n < State::parts; ++n) save(state[n], tile, row, column + 16 * n);
      stage.scale_out(missing);
      const FragmentA<gated_planes> written(missing);
#pragma unroll
      for (int n = 0; n < State::parts; ++n) {
        if (split == 1) load_k_out(stage, n, 0);
        SplitAccumulator<1> added;
        added.add(written, k_out[split > 1 ? n : 0]);
        S.decay_and_add(n, stage, column + 16 * n, added);
      }
      if (tile + 1 < count) load_ahead(tile + 1);
      memory.queue.release(tile);
      if (bound > 0) S.neutralize(bound);
      bound = next_bound;
    }
    if constexpr (split > 1) group_barrier<Division>(group);
    if (pass.state_upper)
#pragma unroll
      for (int n = 0; n < State::parts; ++n)
        save(FragmentA<gated_planes>(S.part[n]), count, row, column + 16 * n);
    if (op.final_state) S.store(op.final_state + of_head * op.values * keys, row, column);
  }

  // The warp that writes a group's results, where several hold the state: a tile's results when the
  // next one has begun.
  __device__ void write(int group) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    Accumulator result;  // of the tile before
    const auto finish = [&](int tile) {
      const TileStage& stage = memory.queue.wait(tile);
      Accumulator from_state = memory.group[tile % 2][group].read.sum();
      stage.scale_in(from_state);
      result.add(from_state);
      memory.queue.release(tile);
      if (op.y)
        store_transposed(result, op.y + rows.first + row, rows.step, tiles, tiles.first(tile));
    };
    for (int tile = 0; tile < count; ++tile) {
      const TileStage& stage = memory.queue.wait(tile);
      const Known known(stage, group);
      group_barrier<Division>(group);
      if (tile > 0) finish(tile - 1);
      const FragmentA<gated_planes> missing(
          missing_values(stage, known, memory.group[tile % 2][group].recalled.sum()));
      if (pass.missing) save_rows(pass.missing, tile, row, missing);
      result = read_missing(stage, missing);
    }
    group_barrier<Division>(group);
    finish(count - 1);
  }
};

}  // namespace

void gated_state_forward(const GatedPass& pass, const Gpu& gpu) {
  launch_states<ForwardBlock>(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
