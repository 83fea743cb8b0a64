// Forward for many heads: one block per head, tile after tile, on the tensor cores. Eight consumer
// warps hold the state, producer warps make the operands of the next tiles (operand_producer.cuh).
//
// They synchronize by mbarriers and not by barriers of the block: warps with different rows of the
// state may be in different places of a tile, or in different tiles, so that one multiplies while
// another waits or computes tanh.
#include "kernel/delta_rule/cuda/operand_producer.cuh"
#include "kernel/delta_rule/cuda/state_fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// The threads of a block. Producers take as long for a tile as consumers, or longer, so two groups
// of them alternate; those of floats hold more in registers, of which there are enough for one.
// Limited memory has room for one group, and for one stage of floats.
template <class Real, SharedMemory shared>
struct Pipeline {
  static constexpr bool ample = shared == SharedMemory::ample,
                        is_bf16 = sizeof(Real) == sizeof(bf16);
  static constexpr int groups = ample && is_bf16 ? 2 : 1, stages = ample || is_bf16 ? groups + 1 : 1;
  static constexpr int threads = consumer_threads + groups * producer_threads;
  using Operands = ForwardOperands<Real, operand_layout(shared)>;
  using Producer = OperandProducer<Real, groups, operand_layout(shared)>;
};

// A tile in the pipeline: producers pass its operands to consumers, and get its results back.
template <class Real, SharedMemory shared>
struct Stage {
  typename Pipeline<Real, shared>::Operands operands;
  alignas(16) Real y[tile_tokens][head_size + 8];
  TinyPolynomial tiny;   // where SANE follows
  Mbarrier full, empty;  // every thread arrives: racecheck does not see one that does for its warp
};
template <class Real, SharedMemory shared>
struct ForwardMemory {
  using Pipe = Pipeline<Real, shared>;
  Stage<Real, shared> stage[Pipe::stages];
  Boundary next[Pipe::groups];  // of each group's next tile
  ProducerMemory producer[Pipe::groups];
  // Double buffered: the other warp may still read those of the tile before.
  Exchange<Givers::both> sa[2];
  Exchange<Givers::one> y[2];

  __device__ Stage<Real, shared>& of(int tile) { return stage[tile % Pipe::stages]; }
  // Of the mbarriers of a tile's stage.
  __device__ static uint32_t parity(int tile) { return tile / Pipe::stages % 2; }
};

// The stages as a consumer walks through them: to compute each from its tile takes 70 cycles.
template <class Real, SharedMemory shared>
struct StageRing {
  Stage<Real, shared>* stage;
  int index = 0;
  uint32_t parity = 0;  // of its mbarriers

  __device__ void advance() {
    ++stage;
    if (++index == Pipeline<Real, shared>::stages) stage -= index, index = 0, parity ^= 1;
  }
};

// The head of a block, and its tiles.
struct BlockHead {
  int64_t sequence, head, time;
  int tiles, chunks;
  template <class Real>
  __device__ explicit BlockHead(const DeltaRule<Real>& op)
      : sequence(blockIdx.x / op.heads),
        head(blockIdx.x % op.heads),
        time(op.lengths ? __ldg(op.lengths + sequence) : op.time),
        tiles(int((time + tile_tokens - 1) / tile_tokens)),
        chunks(int(time / tile_tokens)) {}
  __device__ int length(int tile) const {
    return int(min(time - tile * tile_tokens, int64_t(tile_tokens)));
  }
  // Whether SANE follows a tile, and its tau: 0 where it does not.
  template <class Real>
  __device__ bool has_sane(const DeltaRule<Real>& op, int tile) const {
    return op.tau && tile < chunks;
  }
  template <class Real>
  __device__ float tau(const DeltaRule<Real>& op, int tile) const {
    const int64_t first = sequence * (op.time / tile_tokens);
    return has_sane(op, tile) ? __ldg(op.tau + (first + tile) * op.heads + head) : 0;
  }
};

// The results of a warp's 16 rows and a tile's tokens, into rows of tokens.
using TokenRow = bf16[head_size + 8];
__device__ void store_results(TokenRow* to, int row, const Accumulator& y) {
  const int piece = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
  store_matrices<Layout::transposed>(
      &to[piece / 2 * 8 + line][row + piece % 2 * 8],
      {pack_bf16(y.c[0][0], y.c[0][1]), pack_bf16(y.c[0][2], y.c[0][3]),
       pack_bf16(y.c[1][0], y.c[1][1]), pack_bf16(y.c[1][2], y.c[1][3])});
}
__device__ void store_results(float (*to)[head_size + 8], int row, const Accumulator& y) {
  y.each([&](int i, int t, float x, float next) { to[t][row + i] = x, to[t + 1][row + i] = next; });
}

// The tiles of one group of producers. Behind the last tile there are only results to store.
template <class Real, SharedMemory shared>
__device__ void produce_tiles(const DeltaRule<Real>& op, ForwardMemory<Real, shared>& memory) {
  using Pipe = Pipeline<Real, shared>;
  constexpr int groups = Pipe::groups;
  const BlockHead head(op);
  const int group = (threadIdx.x - consumer_threads) / producer_threads;
  typename Pipe::Producer producer(memory.producer[group], op,
                                   consumer_threads + group * producer_threads);
  producer.set_head(op, head.sequence, head.head);
  Real* const y = op.y ? op.y + (producer.v - op.v) : nullptr;
  if (group < head.tiles) producer.load(group, head.length(group));
  Boundary& next = memory.next[group];
  // Without SANE one boundary for all tiles.
  const bool makes_boundaries = producer.thread == producer_threads - 1;
  if (makes_boundaries) next = Boundary(head.tau(op, group));
  float next_tau = makes_boundaries ? head.tau(op, group + groups) : 0;
  producer.sync();
  for (int tile = group; tile < head.tiles + Pipe::stages; tile += groups) {
    Stage<Real, shared>& stage = memory.of(tile);
    const int before = tile - Pipe::stages;  // which had this stage
    Packed<Real> results;  // of it: read at once, stored when there is time
    if (before >= 0) {
      mbarrier_wait(stage.empty, memory.parity(before));
      results = Packed<Real>(&stage.y[producer.token][producer.part]);
    }
    if (tile < head.tiles) producer.make_vectors(stage.operands, next.factor);
    if (y && before >= 0 && producer.token < head.length(before))
      results.store(y + before * tile_tokens * producer.step);
    if (tile >= head.tiles) continue;
    if (makes_boundaries && op.tau) {
      stage.tiny = next.tiny;
      next = Boundary(next_tau);
      next_tau = head.tau(op, tile + 2 * groups);
    }
    if (tile + groups < head.tiles) producer.load(tile + groups, head.length(tile + groups));
    producer.make_products(stage.operands);
    mbarrier_arrive(stage.full);
  }
}

// A warp that holds 16 rows and half of the columns of the state.
template <class Real, SharedMemory shared>
struct Consumer {
  using Operands = typename Pipeline<Real, shared>::Operands;
  static constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  HalfRows S;
  int row = HalfRows::first_row(), first_column = HalfRows::first_column();
  bool left_half = HalfRows::half() == 0;
  bool tiny = true, small = true;  // all entries of this warp, at the last neutralization

  // This half's part of S0 A~' + V' AK' and of S0 R~' + V' RK'. The terms without S0 are in the
  // left half, because the right one finishes the results.
  __device__ void read(const Operands& operands, const FragmentA<exact>& v,
                       Accumulator& sa, Accumulator& y) const {
    StateAccumulator<Real, 2> sa_sums;
    StateAccumulator<Real, 1> y_sums;
#pragma unroll
    for (int n = 0; n < HalfRows::pieces; n += 2) {
      const FragmentA<state_planes> part(S.x[n], S.x[n + 1]);
      FragmentB<state_planes> a;
      a.template load<Layout::transposed>(operands.a, first_column + 8 * n, 0);
      sa_sums.add(part, a);
      FragmentB<result> r;
      r.template load<Layout::transposed>(operands.r, first_column + 8 * n, 0);
      y_sums.template add_leading<result>(part, r);
    }
    if (left_half) {
      FragmentB<state_planes> ak;
      ak.template load<Layout::transposed>(operands.ak, 0, 0);
      sa_sums.add(v, ak);
      FragmentB<result> rk;
      rk.template load<Layout::transposed>(operands.rk, 0, 0);
      y_sums.template add_leading<result>(v, rk);
    }
    sa = sa_sums.total(), y = y_sums.total();
  }
  // S0 -> S, and SA. own: this half's part of SA before the inverse; `parts` has the other's.
  // then(n): what follows for two pieces, from piece n on. It has no branches: at a branch a warp
  // waits for the accumulators of the tensor cores.
  template <class Then>
  __device__ FragmentA<state_planes> write(const Operands& operands, const FragmentA<exact>& v,
                                           Accumulator own, const Exchange<Givers::both>& parts,
                                           Then&& then) {
    parts.add_other(own);
    const FragmentA<state_planes> before(own);
    FragmentB<state_planes> inverse;
    inverse.template load<Layout::row_major>(operands.inverse, 0, 0);
    StateAccumulator<Real, 2> sums;
    sums.add(before, inverse);
    const FragmentA<state_planes> sa(sums.total());
    FragmentB<state_planes> right;
#pragma unroll
    for (int n = 0; n < HalfRows::pieces; n += 2) {
      StateAccumulator<Real, 1> more;
      right.template load<Layout::row_major>(operands.k, 0, first_column + 8 * n);
      more.add(v, right);
      right.template load<Layout::row_major>(operands.b, 0, first_column + 8 * n);
      more.add(sa, right);
      S.add(n, more.total());
      S.scale(n, operands.decay), S.scale(n + 1, operands.decay);
      then(n);
    }
    return sa;
  }
  // Likewise, with SANE if `sane`: speculating that all entries are tiny, and by the approximations
  // for larger ones if they are not, or were not the last time.
  __device__ FragmentA<state_planes> end_tile(const Stage<Real, shared>& stage,
                                              const FragmentA<exact>& v, const Accumulator& own,
                                              const Exchange<Givers::both>& parts, bool sane) {
    HalfRows before;
    FragmentA<state_planes> sa;
    if (sane && tiny) {
      SpeculateTiny as_tiny{stage.tiny};
      sa = write(stage.operands, v, own, parts, [&](int n) {
#pragma unroll
        for (int p = n; p < n + 2; ++p) before.copy(p, S), as_tiny.apply(S.x[p]);
      });
      if (as_tiny.all_tiny()) return sa;
    } else {
      sa = write(stage.operands, v, own, parts, [](int) {});
      if (!sane) return sa;
      before = S;
    }
    SpeculateMedium as_medium{Tanh(stage.tiny.tau, stage.tiny.inverse_g())};
#pragma unroll
    for (int n = 0; n < HalfRows::pieces; ++n) S.copy(n, before), as_medium.apply(S.x[n]);
    if (!as_medium.all_medium()) S.set(before, as_medium.tanh);
    tiny = as_medium.all_tiny(), small = as_medium.all_below(small_limit_before);
    return sa;
  }
  // y: the sum of both halves' parts.
  __device__ void finish_results(Stage<Real, shared>& stage, const FragmentA<state_planes>& sa,
                                 const Accumulator& y) const {
    StateAccumulator<Real, 1> sums;
    sums.large = y;
    FragmentB<result> rb;
    rb.template load<Layout::transposed>(stage.operands.rb, 0, 0);
    sums.template add_leading<result>(sa, rb);
    store_results(stage.y, row, sums.total());
  }
};

template <class Real, SharedMemory shared>
__device__ void consume_tiles(const TileForward<Real>& pass, ForwardMemory<Real, shared>& memory) {
  const DeltaRule<Real>& op = pass.op;
  const BlockHead head(op);
  const int tiles = head.tiles;
  Consumer<Real, shared> consumer;
  HalfRows& S = consumer.S;
  if (op.initial)
    S.load(op.initial + int64_t(blockIdx.x) * state_entries);
  else
    S.clear();
  auto* const states = reinterpret_cast<SavedState*>(pass.states);
  const int64_t first = int64_t(blockIdx.x) * (tiles + 1);
  float4* saved = states ? HalfRows::address(states[first]) : nullptr;
  uint32_t* magnitude = saved_magnitudes(pass.states, int64_t(gridDim.x) * (tiles + 1)) + first;
  const auto save_state = [&] {
    if (!saved) return;
    S.store(saved);
    if (!consumer.tiny && threadIdx.x % 32 == 0)
      atomicOr(magnitude, uint32_t(consumer.small ? Magnitude::small : Magnitude::any));
    saved += sizeof(SavedState) / sizeof(float4), ++magnitude;
  };
  StageRing<Real, shared> ring{memory.stage};
  for (int tile = 0; tile < tiles; ++tile) {
    save_state();
    Stage<Real, shared>& stage = *ring.stage;
    const auto& operands = stage.operands;
    mbarrier_wait(stage.full, ring.parity);
    FragmentA<exact_planes<Real>> v;
    v.template load<Layout::transposed>(operands.values, consumer.row, 0);
    Accumulator sa, y;  // rows of the state, columns of tokens
    consumer.read(operands, v, sa, y);
    auto& sa_parts = memory.sa[tile % 2];
    auto& y_parts = memory.y[tile % 2];
    sa_parts.store(sa);
    if (consumer.left_half) y_parts.store(y);
    sync_exchange();
    const FragmentA<state_planes> whole_sa =
        consumer.end_tile(stage, v, sa, sa_parts, head.has_sane(op, tile));
    if (!consumer.left_half && op.y) {
      y_parts.add_other(y);
      consumer.finish_results(stage, whole_sa, y);
    }
    mbarrier_arrive(stage.empty);
    ring.advance();
  }
  save_state();
  if (op.final_state) S.store(op.final_state + int64_t(blockIdx.x) * state_entries);
}

template <class Real, SharedMemory shared>
__global__ __launch_bounds__(Pipeline<Real, shared>::threads,
                             1) void tile_forward_kernel(TileForward<Real> pass) {
  static_assert(shared == SharedMemory::ample ||
                sizeof(ForwardMemory<Real, shared>) <= limited_shared_bytes);
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<ForwardMemory<Real, shared>*>(dynamic_shared);
  if (threadIdx.x == 0)
    for (Stage<Real, shared>& stage : memory.stage)
      mbarrier_init(stage.full, producer_threads), mbarrier_init(stage.empty, consumer_threads);
  if (pass.states) {  // consumers may set more bits
    const int states = BlockHead(pass.op).tiles + 1;
    uint32_t* const magnitude = saved_magnitudes(pass.states, int64_t(gridDim.x) * states);
    for (int i = threadIdx.x; i < states; i += blockDim.x)
      magnitude[int64_t(blockIdx.x) * states + i] = uint32_t(Magnitude::tiny);
  }
  __syncthreads();
  if (threadIdx.x < consumer_threads)
    consume_tiles(pass, memory);
  else
    produce_tiles(pass.op, memory);
}

template <SharedMemory shared, class Real>
void launch_tile_forward(const TileForward<Real>& pass, const Gpu& gpu) {
  launch(tile_forward_kernel<Real, shared>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(Pipeline<Real, shared>::threads),
              sizeof(ForwardMemory<Real, shared>)},
         gpu, pass);
}

}  // namespace

template <class Real>
uint64_t tile_forward_shared_bytes() {
  return sizeof(ForwardMemory<Real, SharedMemory::limited>);
}

template <class Real>
void tile_forward(const TileForward<Real>& pass, const Gpu& gpu) {
  if (sizeof(ForwardMemory<Real, SharedMemory::ample>) <= gpu.properties().shared_bytes)
    launch_tile_forward<SharedMemory::ample>(pass, gpu);
  else
    launch_tile_forward<SharedMemory::limited>(pass, gpu);
}

template uint64_t tile_forward_shared_bytes<float>();
template uint64_t tile_forward_shared_bytes<bf16>();
template void tile_forward(const TileForward<float>&, const Gpu&);
template void tile_forward(const TileForward<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
