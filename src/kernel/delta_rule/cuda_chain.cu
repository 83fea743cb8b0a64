// Forward: one block per head, tile after tile, on the tensor cores: eight warps own the state,
// others make the factors of the next tiles (cuda_operands.cuh).
//
// They wait for each other by signals and not at a barrier: warps with different rows of the state
// may be at different places of a tile, or at different tiles, so that one multiplies while another
// one waits or finds hyperbolic tangents.
#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// Who works on a head. Makers take as long for a tile as owners, or longer, so two groups take
// turns; those of floats have more in their registers, which are enough for one.
template <class Real>
struct Crew {
  static constexpr int groups = sizeof(Real) == sizeof(bf16) ? 2 : 1, stages = groups + 1;
  static constexpr int threads = owners + groups * makers;
};

// A tile on its way: from makers to owners its factors, and back its results.
template <class Real>
struct Stage {
  ForwardFactors<Real> factors;
  alignas(16) Real y[tile_tokens][head_size + 8];
  Threshold threshold;  // where SANE follows
  Signal made, used;    // by every thread: racecheck does not see one that stands for its warp
};
template <class Real>
struct ForwardMemory {
  Stage<Real> stage[Crew<Real>::stages];
  Boundary next[Crew<Real>::groups];  // of each group's next tile
  MakerMemory making[Crew<Real>::groups];
  Exchange sa[2], y[2];  // by turns: the other warp may still read those of the tile before

  __device__ Stage<Real>& of(int tile) { return stage[tile % Crew<Real>::stages]; }
  // Of a tile in its stage, for signals.
  __device__ static uint32_t round(int tile) { return tile / Crew<Real>::stages % 2; }
};

// The stages as an owner goes through them: to find each from its tile takes 70 cycles.
template <class Real>
struct Ring {
  Stage<Real>* stage;
  int place = 0;
  uint32_t round = 0;  // for its signals

  __device__ void turn() {
    ++stage;
    if (++place == Crew<Real>::stages) stage -= place, place = 0, round ^= 1;
  }
};

// The head of a block, and its tiles.
struct Place {
  int64_t sequence, head, time;
  int tiles, chunks;
  template <class Real>
  __device__ explicit Place(const DeltaRule<Real>& op)
      : sequence(blockIdx.x / op.heads),
        head(blockIdx.x % op.heads),
        time(op.time),
        tiles(int((op.time + tile_tokens - 1) / tile_tokens)),
        chunks(int(op.time / tile_tokens)) {}
  __device__ int length(int tile) const {
    return int(min(time - tile * tile_tokens, int64_t(tile_tokens)));
  }
  // Whether SANE follows a tile, and with what tau: 0 where it does not.
  template <class Real>
  __device__ bool has_sane(const DeltaRule<Real>& op, int tile) const {
    return op.tau && tile < chunks;
  }
  template <class Real>
  __device__ float tau(const DeltaRule<Real>& op, int tile) const {
    return has_sane(op, tile) ? __ldg(op.tau + (sequence * chunks + tile) * op.heads + head) : 0;
  }
};

// Of a warp's 16 rows and a tile's tokens, the results: into rows of tokens.
using TokenRow = bf16[head_size + 8];
__device__ void put_results(TokenRow* to, int row, const Sums& y) {
  const int piece = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
  store_matrices<Lies::transposed>(&to[piece / 2 * 8 + line][row + piece % 2 * 8],
                                   {packed(y.c[0][0], y.c[0][1]), packed(y.c[0][2], y.c[0][3]),
                                    packed(y.c[1][0], y.c[1][1]), packed(y.c[1][2], y.c[1][3])});
}
__device__ void put_results(float (*to)[head_size + 8], int row, const Sums& y) {
  y.each([&](int i, int t, float x, float next) { to[t][row + i] = x, to[t + 1][row + i] = next; });
}

// Tiles of one group of makers; those behind the last have results of others only.
template <class Real>
__device__ void make_tiles(const DeltaRule<Real>& op, ForwardMemory<Real>& memory) {
  constexpr int groups = Crew<Real>::groups;
  const Place place(op);
  const int group = (threadIdx.x - owners) / makers;
  FactorMaker<Real, groups> maker(memory.making[group], op, owners + group * makers);
  maker.turn_to(op, place.sequence, place.head);
  Real* const y = op.y ? op.y + (maker.v - op.v) : nullptr;
  if (group < place.tiles) maker.ask_for(group, place.length(group));
  Boundary& next = memory.next[group];
  const bool makes_boundaries = maker.thread == makers - 1;  // without SANE one for all tiles
  if (makes_boundaries) next = Boundary(place.tau(op, group));
  float next_tau = makes_boundaries ? place.tau(op, group + groups) : 0;
  maker.meet();
  for (int tile = group; tile < place.tiles + Crew<Real>::stages; tile += groups) {
    Stage<Real>& stage = memory.of(tile);
    const int before = tile - Crew<Real>::stages;  // which had this stage
    Eight<Real> results;  // of it: read at once, written when there is time
    if (before >= 0) {
      wait_for(stage.used, memory.round(before));
      results.read(&stage.y[maker.token][maker.part]);
    }
    if (tile < place.tiles) maker.make_vectors(stage.factors, next.factor);
    if (y && before >= 0 && maker.token < place.length(before))
      results.write(y + before * tile_tokens * maker.step);
    if (tile >= place.tiles) continue;
    if (makes_boundaries && op.tau) {
      stage.threshold = next.threshold;
      next = Boundary(next_tau);
      next_tau = place.tau(op, tile + 2 * groups);
    }
    if (tile + groups < place.tiles) maker.ask_for(tile + groups, place.length(tile + groups));
    maker.make_products(stage.factors);
    arrive(stage.made);
  }
}

// A warp that owns 16 rows and half of the columns of the state.
template <class Real>
struct Owner {
  static constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  OwnPart S;
  int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  bool left_half = OwnPart::half() == 0;
  bool tiny = true, small = true;  // all entries of this warp, when they last were neutralized

  // This half's part of S0 A~' + V' AK' and of S0 R~' + V' RK'. What is not of S0 has the left
  // half, because the right one puts the results together.
  __device__ void read(const ForwardFactors<Real>& factors, const Left<exact>& v, Sums& sa,
                       Sums& y) const {
    StateSums<Real, 2> sa_sums;
    StateSums<Real, 1> y_sums;
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      const Left<state_planes> part(S.x[n], S.x[n + 1]);
      Right<state_planes> a;
      a.template load<Lies::transposed>(factors.a, first_column + 8 * n, 0);
      sa_sums.add(part, a);
      Right<result> r;
      r.template load<Lies::transposed>(factors.r, first_column + 8 * n, 0);
      y_sums.template add_main<result>(part, r);
    }
    if (left_half) {
      Right<state_planes> ak;
      ak.template load<Lies::transposed>(factors.ak, 0, 0);
      sa_sums.add(v, ak);
      Right<result> rk;
      rk.template load<Lies::transposed>(factors.rk, 0, 0);
      y_sums.template add_main<result>(v, rk);
    }
    sa = sa_sums.total(), y = y_sums.total();
  }
  // S0 -> S, and SA. own: this half's part of SA before the inverse, of which `parts` has the
  // other's. then(n): what follows for two pieces, from piece n on. All in one piece: where ways
  // part, the tensor cores' sums are waited for.
  template <class Then>
  __device__ Left<state_planes> write(const ForwardFactors<Real>& factors, const Left<exact>& v,
                                      Sums own, const Exchange& parts, Then&& then) {
    parts.add_other(own);
    const Left<state_planes> before(own);
    Right<state_planes> inverse;
    inverse.template load<Lies::straight>(factors.inverse, 0, 0);
    StateSums<Real, 2> sums;
    sums.add(before, inverse);
    const Left<state_planes> sa(sums.total());
    Right<state_planes> right;
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      StateSums<Real, 1> more;
      right.template load<Lies::straight>(factors.k, 0, first_column + 8 * n);
      more.add(v, right);
      right.template load<Lies::straight>(factors.b, 0, first_column + 8 * n);
      more.add(sa, right);
      S.add(n, more.total());
      S.scale(n, factors.decay), S.scale(n + 1, factors.decay);
      then(n);
    }
    return sa;
  }
  // Likewise, and SANE if it is wanted: as if all entries were tiny, and if they were not, or not
  // the last time, by ways for larger ones.
  __device__ Left<state_planes> end_tile(const Stage<Real>& stage, const Left<exact>& v,
                                         const Sums& own, const Exchange& parts, bool wanted) {
    OwnPart before;
    Left<state_planes> sa;
    if (wanted && tiny) {
      TinyFirst tiny_first{stage.threshold};
      sa = write(stage.factors, v, own, parts, [&](int n) {
#pragma unroll
        for (int p = n; p < n + 2; ++p) before.copy(p, S), tiny_first.take(S.x[p]);
      });
      if (tiny_first.all_tiny()) return sa;
    } else {
      sa = write(stage.factors, v, own, parts, [](int) {});
      if (!wanted) return sa;
      before = S;
    }
    MediumFirst medium_first{Tangent(stage.threshold.tau, stage.threshold.inverse_g())};
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; ++n) S.copy(n, before), medium_first.take(S.x[n]);
    if (!medium_first.all_medium()) S.set(before, medium_first.tangent);
    tiny = medium_first.all_tiny(), small = medium_first.all_below(small_part_before);
    return sa;
  }
  // y: its parts of both halves are added up.
  __device__ void finish_results(Stage<Real>& stage, const Left<state_planes>& sa,
                                 const Sums& y) const {
    StateSums<Real, 1> sums;
    sums.large = y;
    Right<result> rb;
    rb.template load<Lies::transposed>(stage.factors.rb, 0, 0);
    sums.template add_main<result>(sa, rb);
    put_results(stage.y, row, sums.total());
  }
};

template <class Real>
__device__ void own_state(const ChainPass<Real>& pass, ForwardMemory<Real>& memory) {
  const DeltaRule<Real>& op = pass.op;
  const Place place(op);
  const int tiles = place.tiles;
  Owner<Real> owner;
  OwnPart& S = owner.S;
  if (op.initial)
    S.load(op.initial + int64_t(blockIdx.x) * state_entries);
  else
    S.clear();
  auto* const states = reinterpret_cast<KeptState*>(pass.states);
  const int64_t first = int64_t(blockIdx.x) * (tiles + 1);
  float4* kept = states ? OwnPart::place(states[first]) : nullptr;
  uint32_t* reach = kept_reach(pass.states, int64_t(gridDim.x) * (tiles + 1)) + first;
  const auto keep_state = [&] {
    if (!kept) return;
    S.store(kept);
    if (!owner.tiny && threadIdx.x % 32 == 0)
      atomicOr(reach, uint32_t(owner.small ? Reach::small : Reach::any));
    kept += sizeof(KeptState) / sizeof(float4), ++reach;
  };
  Ring<Real> ring{memory.stage};
  for (int tile = 0; tile < tiles; ++tile) {
    keep_state();
    Stage<Real>& stage = *ring.stage;
    const ForwardFactors<Real>& factors = stage.factors;
    wait_for(stage.made, ring.round);
    Left<exact_planes<Real>> v;
    v.template load<Lies::transposed>(factors.given, owner.row, 0);
    Sums sa, y;  // rows of the state, columns of tokens
    owner.read(factors, v, sa, y);
    Exchange &sa_parts = memory.sa[tile % 2], &y_parts = memory.y[tile % 2];
    sa_parts.say(sa);
    if (owner.left_half) y_parts.say(y);
    Exchange::meet();
    const Left<state_planes> whole_sa =
        owner.end_tile(stage, v, sa, sa_parts, place.has_sane(op, tile));
    if (!owner.left_half && op.y) {
      y_parts.add_other(y);
      owner.finish_results(stage, whole_sa, y);
    }
    arrive(stage.used);
    ring.turn();
  }
  keep_state();
  if (op.final_state) S.store(op.final_state + int64_t(blockIdx.x) * state_entries);
}

template <class Real>
__global__ __launch_bounds__(Crew<Real>::threads, 1) void forward_kernel(ChainPass<Real> pass) {
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ForwardMemory<Real>*>(raw_memory);
  if (threadIdx.x == 0)
    for (Stage<Real>& stage : memory.stage) set_up(stage.made, makers), set_up(stage.used, owners);
  if (pass.states) {  // until owners say more
    const int states = Place(pass.op).tiles + 1;
    uint32_t* const reach = kept_reach(pass.states, int64_t(gridDim.x) * states);
    for (int i = threadIdx.x; i < states; i += blockDim.x)
      reach[int64_t(blockIdx.x) * states + i] = uint32_t(Reach::tiny);
  }
  __syncthreads();
  if (threadIdx.x < owners)
    own_state(pass, memory);
  else
    make_tiles(pass.op, memory);
}

}  // namespace

template <class Real>
uint64_t chain_pass_shared() {
  return sizeof(ForwardMemory<Real>);
}

template <class Real>
void chain_pass(const ChainPass<Real>& pass, const Gpu& gpu) {
  launch(forward_kernel<Real>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(Crew<Real>::threads),
              sizeof(ForwardMemory<Real>)},
         gpu, pass);
}

template uint64_t chain_pass_shared<float>();
template uint64_t chain_pass_shared<bf16>();
template void chain_pass(const ChainPass<float>&, const Gpu&);
template void chain_pass(const ChainPass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
