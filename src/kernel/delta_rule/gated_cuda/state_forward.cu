// Forward over the states, tile after tile: warps hold rows of a head's state in registers. See
// terms.cuh for the equations, and stages.cuh for how a block divides its rows.
#include "kernel/delta_rule/gated_cuda/state_boundary.cuh"
#include "kernel/delta_rule/gated_cuda/state_pass.cuh"

namespace deltasane::kernel::cuda {
namespace {

// saves: the states between tiles, and E, for backward.
template <Decay decay_, class Division_, bool saves>
struct ForwardBlock : HeadRows {
  using Division = Division_;
  static constexpr bool solved = solved_terms<decay_>, terms_beside = Division::terms_beside;
  using Terms = TileTerms<decay_, Division::keys>;
  using TileStage = Stage<decay_, Division, 1>;
  static constexpr int keys = Division::keys;
  static constexpr int in_planes = solved ? gated_planes : 1,
                       out_planes = decay_ == Decay::per_head ? 1 : gated_planes;
  // For the writer.
  struct Results {
    PartialProducts<Division::split> read;
    PartialProducts<1> missing;
  };
  // Results of the last tiles, in turn: in step the writer is less than two tiles late, and otherwise
  // less than all stages, which it releases.
  template <int stages>
  static constexpr unsigned result_turns = stages == step_stages<decay_> ? 2 : stages;
  // What warps that share rows exchange.
  template <int stages, int groups>
  struct Exchange {
    PartialProducts<Division::split> recalled[2][groups];  // of the tiles in turn
    Results results[result_turns<stages>][groups];
    __device__ Results& results_of(unsigned tile, int group) {
      return results[tile % result_turns<stages>][group];
    }
  };
  template <int stages>
  struct Exchange<stages, 0> {};
  template <int stages>
  static constexpr size_t shared_bytes = stages * sizeof(TileStage) +
                                         sizeof(Exchange<stages, Division::writers>);
  // In step: see TileLoader. That takes more stages, so it is not done where a GPU that has enough shared
  // memory for the heads otherwise would not have enough.
  static constexpr bool in_step =
      Division::writers == 1 &&
      (shared_bytes<step_stages<decay_>> <= limited_shared ||
       (shared_bytes<3> > limited_shared && shared_bytes<step_stages<decay_>> <= ample_shared));
  // Where the terms are nearly all of a tile; the wait for a bulk copy takes as long as smaller ones.
  static constexpr bool bulk_terms = in_step && decay_ == Decay::per_channel;
  static constexpr int stages =
      in_step ? step_stages<decay_>
              : stages_within<TileStage>(
                    Division::writers > 0 && shared_bytes<3> <= limited_shared ? 76 : 101);
  struct Memory {
    StageQueue<TileStage, bulk_terms ? 1 : 32 * Division::loader_warps,
               Division::state_warps + Division::writers, stages>
        queue;
    Exchange<stages, Division::writers> exchange;
    __device__ void init() {
      queue.init();
      if constexpr (bulk_terms) NV_IF_TARGET(NV_PROVIDES_SM_90, (fence_mbarrier_init();))
    }
  };
  Memory& memory;

  // Where a group's warps arrive when a tile's results are stored, and its writer waits.
  __device__ static int results_barrier(unsigned tile, int group) {
    return int(1 + Division::groups + group * result_turns<stages> + tile % result_turns<stages>);
  }
  static constexpr int results_threads = 32 * (Division::split + 1);

  __device__ const bf16* values() const { return pass.op.v; }
  __device__ int tile_of(int i) const { return i; }
  template <int threads>
  __device__ void copy_saved(TileStage&, int) const {}

  // What of E does not depend on the state.
  struct Known {
    FragmentA<1> v;
    FragmentB<gated_planes> inverse;
    typename TileStage::Factors in;
    Known() = default;
    __device__ Known(const TileStage& stage, int group) : in(stage.factors_in()) {
      v.template load<Layout::transposed>(stage.values, group * row_group, 0);
      inverse.template load<Layout::transposed>(stage.terms.inverse, 0, 0);
    }
    __device__ Accumulator values() const {  // V, or U
      if constexpr (!solved) return v.to_accumulator();
      SplitAccumulator<1> sums;
      sums.add(v, inverse);
      return sums.total();
    }
  };
  // Where a lane's operands are in the first stage, for a warp that holds some columns.
  struct Places {
    OperandPlace<FragmentB<in_planes>, Layout::transposed, typename TileStage::KIn> k_in;
    OperandPlace<FragmentB<1>, Layout::transposed, typename TileStage::QIn> q_in;
    OperandPlace<FragmentB<out_planes>, Layout::row_major, typename TileStage::KOut> k_out;
    OperandPlace<FragmentA<1>, Layout::transposed, typename TileStage::Values> values;
    OperandPlace<FragmentB<gated_planes>, Layout::transposed, TileMatrix> inverse;
    __device__ Places(const TileStage& first, int group, int column)
        : k_in(first.k_in(), column, 0),
          q_in(first.q_in(), column, 0),
          k_out(first.k_out(), 0, column),
          values(first.values, group * row_group, 0),
          inverse(first.terms.inverse, 0, 0) {}
    __device__ void load(Known& known, const TileStage& stage, uint32_t bytes) const {
      values.load(known.v, bytes), inverse.load(known.inverse, bytes);
      known.in = stage.factors_in();
    }
  };
  // E of 16 rows, transposed, given S0 K_in' or S0 W'.
  __device__ static Accumulator missing_values(const Known& known, Accumulator recalled) {
    known.in.scale(recalled);
    Accumulator difference = known.values();
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) difference.c[p][i] -= recalled.c[p][i];
    if constexpr (solved) return difference;
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

  using State = StateFragment<Division>;
  __device__ void load_initial(State& S, int row, int column) const {
    S.load(pass.op.initial ? pass.op.initial + of_head * pass.op.values * keys : nullptr, row,
           column);
  }
  __device__ void finish(State& S, int row, int column) const {  // of a neutralized state
    if constexpr (saves)
#pragma unroll
      for (int n = 0; n < State::parts; ++n)
        save(FragmentA<gated_planes>(S.part[n]), tiles.count(), row, column + 16 * n);
    if (pass.op.final_state)
      S.store(pass.op.final_state + of_head * pass.op.values * keys, row, column);
  }

  // A warp that holds whole rows.
  struct Products {
    SplitAccumulator<1> recalled, read;  // of the state with K_in or W, and with Q_in
  };
  template <bool small, class Boundary>
  __device__ void multiply(State& S, const Boundary& boundary, const TileStage& stage, int tile,
                           int row, Products& products) const {
#pragma unroll
    for (int n = 0; n < State::parts; ++n) {
      if constexpr (small) boundary.neutralize(S, n);
      const FragmentA<gated_planes> state(S.part[n]);
      FragmentB<in_planes> k_in;
      FragmentB<1> q_in;
      k_in.template load<Layout::transposed>(stage.k_in(), 16 * n, 0);
      q_in.template load<Layout::transposed>(stage.q_in(), 16 * n, 0);
      products.recalled.add(state, k_in), products.read.add(state, q_in);
      if constexpr (saves) save(state, tile, row, 16 * n);
    }
  }
  // The result of a tile's tokens, transposed.
  __device__ static Accumulator read_all(const TileStage& stage, const Products& products,
                                         const FragmentA<gated_planes>& missing) {
    Accumulator result = products.read.total();
    stage.scale_in(result);
    result.add(read_missing(stage, missing));
    return result;
  }
  // The state after the tile; then after(part), of each part.
  template <class Boundary, class After>
  __device__ static void add_written(State& S, const Boundary& boundary, const TileStage& stage,
                                     const FragmentA<gated_planes>& written, After&& after) {
#pragma unroll
    for (int n = 0; n < State::parts; ++n) {
      FragmentB<out_planes> k_out;
      k_out.template load<Layout::row_major>(stage.k_out(), 0, 16 * n);
      SplitAccumulator<0> added;
      added.add(written, k_out);
      boundary.decay_and_add(S, n, stage, 16 * n, added.total());
      after(n);
    }
  }
  template <class Boundary, class Loader>
  __device__ void carry_plain_rows(int group, Loader& loader) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    loader.begin(count, *this);
    TransposedRows y(op.y + rows.first + row, rows.step, tiles.first(0));
    State S;
    load_initial(S, row, 0);
    Boundary boundary;
    float largest = 0;  // magnitude, of this lane's entries
    const auto are_small = [&] { return __all_sync(~0u, largest < boundary.bound()); };
    for (int tile = 0; tile < count; ++tile) {
      loader.next(tile, count, *this);
      bool small = false;
      if (boundary.is_on()) {
        small = are_small();
        if (!small) boundary.neutralize_large(S);
      }
      const TileStage& stage = memory.queue.wait(tile);
      Products products;
      small ? multiply<true>(S, boundary, stage, tile, row, products)
            : multiply<false>(S, boundary, stage, tile, row, products);
      boundary.take(stage);
      Accumulator missing = missing_values(Known(stage, group), products.recalled.total());
      y.store(read_all(stage, products, FragmentA<gated_planes>(missing)), tiles,
              tiles.first(tile));
      boundary.scale_out(stage, missing);
      const FragmentA<gated_planes> written(missing);
      float most[4] = {};
      add_written(S, boundary, stage, written, [&](int n) {
        if constexpr (Boundary::neutralizes) S.add_magnitudes(n, most);
      });
      largest = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
      memory.queue.release(tile);
    }
    if (boundary.is_on()) {
      if (are_small())
#pragma unroll
        for (int n = 0; n < State::parts; ++n) boundary.neutralize(S, n);
      else
        boundary.neutralize_large(S);
    }
    finish(S, row, 0);
  }
  // Likewise, saving the states, with less that is kept from one tile to the next.
  template <class Loader>
  __device__ void carry_saved_rows(int group, Loader& loader) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group, count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    loader.begin(count, *this);
    State S;
    load_initial(S, row, 0);
    SmallBoundary boundary;
    for (int tile = 0; tile < count; ++tile) {
      loader.next(tile, count, *this);
      const float tau_after = tau(tile);
      bool small = boundary.is_on();
      if (small && !S.below(boundary.bound())) boundary.neutralize_large(S), small = false;
      const TileStage& stage = memory.queue.wait(tile);
      Products products;
      small ? multiply<true>(S, boundary, stage, tile, row, products)
            : multiply<false>(S, boundary, stage, tile, row, products);
      boundary = SmallBoundary(tau_after);
      Accumulator missing = missing_values(Known(stage, group), products.recalled.total());
      const FragmentA<gated_planes> planes(missing);
      save_rows(pass.missing, tile, row, planes);
      if (op.y)
        store_transposed(read_all(stage, products, planes), op.y + rows.first + row, rows.step,
                         tiles, tiles.first(tile));
      boundary.scale_out(stage, missing);
      const FragmentA<gated_planes> written(missing);
      add_written(S, boundary, stage, written, [](int) {});
      memory.queue.release(tile);
    }
    if (boundary.is_on()) S.neutralize(boundary.tanh.tau);
    finish(S, row, 0);
  }

  // A warp that holds some columns. Everything is latency here: what does not depend on the state
  // is loaded while products run or other warps are waited for, and what no other warp waits for
  // comes after what one does. Where a warp has no registers for that, operands are loaded late.
  template <class Boundary>
  __device__ void carry_columns(int group, int warp) {
    constexpr int parts = State::parts, ahead = Division::loads_ahead ? parts : 1;
    const int row = first_row + group * row_group, column = warp * Division::columns;
    const unsigned count = tiles.count();
    State S;
    load_initial(S, row, column);
    Boundary boundary;
    FragmentB<in_planes> k_in[ahead];
    FragmentB<out_planes> k_out[ahead];
    FragmentB<1> q_in[ahead];
    Known known;
    const Places at(memory.queue.stage[0], group, column);
    FragmentA<gated_planes> state[parts];
    const auto recall = [&](uint32_t bytes) {
      SplitAccumulator<in_planes - 1> recalled[2];
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if (!Division::loads_ahead) at.k_in.load(k_in[0], bytes, n);
        state[n] = FragmentA<gated_planes>(S.part[n]);
        recalled[n % 2].add(state[n], k_in[n % ahead]);
      }
      Accumulator sum = recalled[0].total();
      sum.add(recalled[1].total());
      return sum;
    };
    const auto load_inputs = [&](const TileStage& stage, uint32_t bytes) {
      if constexpr (Division::loads_ahead) {
#pragma unroll
        for (int n = 0; n < parts; ++n) at.k_in.load(k_in[n], bytes, n);
      }
      at.load(known, stage, bytes);
      if constexpr (Division::loads_ahead) {
#pragma unroll
        for (int n = 0; n < parts; ++n) at.q_in.load(q_in[n], bytes, n);
      }
    };
    const auto load_k_out = [&](uint32_t bytes) {
      if constexpr (Division::loads_ahead) {
#pragma unroll
        for (int n = 0; n < parts; ++n) at.k_out.load(k_out[n], bytes, n);
      }
    };
    // Of the next tile; after the last tile: of none, and not used.
    const auto load_next_inputs = [&](unsigned tile) {
      if (!in_step && tile < count) memory.queue.await(tile);
      load_inputs(memory.queue.waited_for(tile), hoist(memory.queue.bytes(tile)));
    };
    in_step ? __syncthreads() : memory.queue.await(0);
    load_inputs(memory.queue.stage[0], 0), load_k_out(0);
    for (unsigned tile = 0; tile < count; ++tile) {
      const TileStage& stage = memory.queue.waited_for(tile);
      auto& recalled_parts = memory.exchange.recalled[tile % 2][group];
      // As if all entries were small, before it is known: seldom twice.
      const State before = S;
      const auto guess = boundary.guess(S);
      Accumulator sum = recall(memory.queue.bytes(tile));
      recalled_parts.store(warp, sum);
      if (!boundary.holds(guess, before)) [[unlikely]] {
        S = before;
        boundary.neutralize_large(S);
        sum = recall(memory.queue.bytes(tile));
        recalled_parts.store(warp, sum);
      }
      if constexpr (in_step)
        step_barrier<Division>();
      else
        group_barrier<Division>(group);
      sum = recalled_parts.sum_with(warp, sum);
      boundary.take(stage);
      SplitAccumulator<0> read;
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if (!Division::loads_ahead) at.q_in.load(q_in[0], memory.queue.bytes(tile), n);
        read.add(state[n], q_in[n % ahead]);
      }
      Accumulator missing = missing_values(known, sum);
      auto& results = memory.exchange.results_of(tile, group);
      if (warp == Division::split - 1) results.missing.store(0, missing);
      if constexpr (in_step) load_next_inputs(tile + 1);
      boundary.scale_out(stage, missing);
      const FragmentA<gated_planes> written(missing);
      SplitAccumulator<0> added[parts];
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        if (!Division::loads_ahead) at.k_out.load(k_out[0], memory.queue.bytes(tile), n);
        added[n].add(written, k_out[n % ahead]);
      }
      results.read.store(warp, read.total());
      named_barrier_arrive<results_threads>(results_barrier(tile, group));
      if constexpr (saves)
#pragma unroll
        for (int n = 0; n < parts; ++n) save(state[n], tile, row, column + 16 * n);
      if constexpr (!in_step) load_next_inputs(tile + 1);
      load_k_out(memory.queue.bytes(tile + 1));
#pragma unroll
      for (int n = 0; n < parts; ++n)
        boundary.decay_and_add(S, n, stage, column + 16 * n, added[n].total());
      if constexpr (!in_step) memory.queue.release(tile);
    }
    const State before = S;
    if (!boundary.holds(boundary.guess(S), before)) S = before, boundary.neutralize_large(S);
    finish(S, row, column);
  }

  // The warps that hold the state.
  using Sane =
      std::conditional_t<decay_ == Decay::per_channel && saves, SmallBoundary, ScaledBoundary>;
  __device__ void carry(int group, int warp) {
    const int own = Division::groups == 1 ? 0 : group;
    taus ? carry_columns<Sane>(own, warp) : carry_columns<NoBoundary>(own, warp);
  }
  template <class Loader>
  __device__ void carry_rows(int group, Loader& loader) {
    if constexpr (saves)
      carry_saved_rows(group, loader);
    else
      taus ? carry_plain_rows<Sane>(group, loader) : carry_plain_rows<NoBoundary>(group, loader);
  }

  // The warp that writes a group's results, where several hold the state.
  __device__ void write(int group) {
    const GatedRule& op = pass.op;
    const int row = first_row + group * row_group;
    const unsigned count = tiles.count();
    const Rows rows = head_rows(op, sequence, head, op.values);
    if constexpr (in_step) __syncthreads(), arrive_at_step_barrier<Division>();
    for (unsigned tile = 0; tile < count; ++tile) {
      auto& results = memory.exchange.results_of(tile, group);
      // The state's warps have passed the tile's barrier, and so it is there.
      named_barrier<results_threads>(results_barrier(tile, group));
      if (in_step && tile + 1 < count) arrive_at_step_barrier<Division>();
      const TileStage& stage = memory.queue.waited_for(tile);
      const FragmentA<gated_planes> missing(results.missing.sum());
      if constexpr (saves) save_rows(pass.missing, tile, row, missing);
      Accumulator y = results.read.sum();
      stage.scale_in(y);
      y.add(read_missing(stage, missing));
      if constexpr (!in_step) memory.queue.release(tile);
      if (op.y) store_transposed(y, op.y + rows.first + row, rows.step, tiles, tiles.first(tile));
    }
  }
};

}  // namespace

namespace {
template <Decay decay, class Division>
using PlainForward = ForwardBlock<decay, Division, false>;
template <Decay decay, class Division>
using SavingForward = ForwardBlock<decay, Division, true>;
}  // namespace

bool gated_terms_beside(const GatedRule& op, const Gpu& gpu) {
  if (gpu.properties().capability < 90 || many_heads(op, gpu)) return false;
  bool fit = false;
  choose<64, 96, 128, 256>(op.keys, "key channels per head",
                           [&]<int keys>() { fit = FewHeads<keys>::terms_beside; });
  return fit;
}

void gated_state_forward(const GatedPass& pass, const Gpu& gpu) {
  pass.state_upper ? launch_states<SavingForward>(pass, gpu)
                   : launch_states<PlainForward>(pass, gpu);
}

}  // namespace deltasane::kernel::cuda
