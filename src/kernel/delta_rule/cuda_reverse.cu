// The way back through the states, from the last tile to the first, on the tensor cores: one block
// per head. Each 16 rows of the gradient of the state have a warp that owns them; four warps more
// make the factors of tiles to come (cuda_operands.cuh). Few heads have a block for each 16 rows,
// where warps are in each other's way less.
//
// SANE is with the owners (cuda_own_slopes.cuh). Blocks of 16 rows have a warp more for it
// (cuda_slope_makers.cuh): their owner has a scheduler for itself, and all wait for it.
//
// All these warps run code of their own, which must fit into the instruction cache together: with
// 34 KB of it in turns a tile took half as long again. What can be a loop is one.
#include <type_traits>

#include "kernel/cuda_lanes.cuh"
#include "kernel/delta_rule/cuda_operands.cuh"
#include "kernel/delta_rule/cuda_own_slopes.cuh"
#include "kernel/delta_rule/cuda_reverse_roles.cuh"
#include "kernel/delta_rule/cuda_slope_makers.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int all_groups = head_size / shared_rows;
constexpr int vector_makers = 64;
template <int groups>
using OwnRows = OwnColumns<head_size, groups>;

// While the owners are at one tile, the products of the next are made (and its slopes), and the
// vectors of the one after it.
template <class Real>
struct FactorMemory {
  ReverseFactors<Real> tiles[3];
  DecayMatrix decays;                                  // W
  alignas(16) float ab[tile_tokens][tile_tokens + 4];  // and its inverse
};
template <int groups>
struct SaneMemory : std::conditional_t<groups == 1, SlopeMemory, StateRing> {
  float dtau[2][32 * groups];  // parts of tau's gradient
};
struct Nothing {};
template <class Real, int groups, bool sane>
struct ReverseMemory : FactorMemory<Real>, std::conditional_t<sane, SaneMemory<groups>, Nothing> {};

// Makes the vectors of a tile out of what has come, and asks for what comes after.
template <class Real>
struct VectorMaker {
  static constexpr int own_tokens = tile_tokens * head_size / 8 / vector_makers;
  static_assert(vector_makers == head_size);  // each has the decays of a channel
  struct Vectors {
    Eight<Real> a, r, b, dy;
  };
  DecayMatrix& decays;
  int thread;
  int first_token, part;  // of the vectors: this thread's first token, the first of its 8 channels
  int64_t step;           // from token to token
  const Real *a, *r, *b, *dy;
  const float* w;
  Vectors next[own_tokens];
  float next_w[tile_tokens];

  __device__ VectorMaker(DecayMatrix& decays, const ReversePass<Real>& pass, int thread)
      : decays(decays), thread(thread), first_token(thread / 8 * own_tokens), part(thread % 8 * 8) {
    const DeltaRule<Real>& op = pass.op;
    step = op.heads * head_size;
    const int64_t first =
        (blockIdx.x / op.heads * op.time * op.heads + blockIdx.x % op.heads) * head_size;
    const int64_t mine = first + min(int64_t(first_token), op.time - 1) * step + part;
    a = op.a + mine, r = op.r + mine, b = op.b + mine, dy = pass.gradient.dy + mine;
    w = op.w + first + thread;
  }

  __device__ void ask_for_vectors(int64_t tile, int i) {  // of this thread's i-th token
    const int64_t at = (tile * tile_tokens + i) * step;
    next[i].a.load(a + at), next[i].r.load(r + at);
    next[i].b.load(b + at), next[i].dy.load(dy + at);
  }
  __device__ void ask_for_decays(int64_t tile, int count) {
    const float* const from = w + tile * tile_tokens * step;
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) next_w[t] = t < count ? __ldg(from + t * step) : 1;
  }

  // The last tile, which may have fewer tokens.
  __device__ void begin(int tile, int64_t time) {
    const int count = int(time - tile * tile_tokens);
    ask_for_decays(tile, count);
#pragma unroll
    for (int i = 0; i < own_tokens; ++i)
      if (first_token + i < count) ask_for_vectors(tile, i);
    if (time < tile_tokens) step = 0;  // see make: there are no 16 tokens to be asked for again
  }

  // Always asks for the tile before, for the first one again: what is asked for under a condition
  // moves through other registers.
  __device__ void make(ReverseFactors<Real>& to, int tile) {
    const int before = max(tile - 1, 0);
    Vectors here[own_tokens];
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) here[i] = next[i];
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) ask_for_vectors(before, i);
    float decay = 1;
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) *decays.at(t, thread) = decay *= next_w[t];
    to.decay[thread] = decay;
    ask_for_decays(before, tile_tokens);
    meet_at<1, vector_makers>();
    float decay_here[8] = {1, 1, 1, 1, 1, 1, 1, 1};  // before a token, then after it
    if (first_token) decays.read(first_token - 1, part, decay_here);
#pragma unroll 1
    for (int t = first_token; t < first_token + own_tokens; ++t) {
      set_scaled(to.a, t, part, here[0].a, decay_here);
      decays.read(t, part, decay_here);
      set_scaled(to.r, t, part, here[0].r, decay_here);
      float inverse[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) inverse[c] = reciprocal(decay_here[c]);
      set_scaled(to.b, t, part, here[0].b, inverse);
      set_as_is(to.given, t, part, here[0].dy);
#pragma unroll
      for (int later = 1; later < own_tokens; ++later) here[later - 1] = here[later];
    }
    meet_at<1, vector_makers>();  // the block's would do, but tools that look for races want it
  }
};

template <class Real>
__device__ KeptGradient<Real>& kept_gradient(const ReversePass<Real>& pass, int tiles, int tile) {
  return reinterpret_cast<KeptGradient<Real>*>(pass.dstates)[int64_t(blockIdx.x) * tiles + tile];
}

// (I - AB)^-1, by one warp. memory: what it takes.
using SquareMemory = float[tile_tokens][tile_tokens + 4];
__device__ Sums invert(const Sums& ab, SquareMemory& memory) {
  ab.each([&](int t, int s, float x, float next) {
    *reinterpret_cast<float2*>(&memory[t][s]) = {x, next};
  });
  __syncwarp();
  float column[tile_tokens];
  invert_column(memory, threadIdx.x % 16, column);
  __syncwarp();
  const bool second = threadIdx.x % 32 >= 16;
#pragma unroll
  for (int t = 0; t < tile_tokens / 2; ++t)
    memory[second ? t + 8 : t][threadIdx.x % 16] = second ? column[t + 8] : column[t];
  __syncwarp();
  Sums inverse;
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      inverse.c[p][i] =
          memory[threadIdx.x % 32 / 4 + i / 2 * 8][8 * p + threadIdx.x % 4 * 2 + i % 2];
  return inverse;
}

// The sum of all parts, by one warp.
template <int count>
__device__ void write_dtau(float* to, const float (&parts)[count]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < count; i += 32) sum += parts[i + threadIdx.x % 32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) *to = sum;
}

template <class Real>
__device__ HeadEnds ends_of_head(const ReversePass<Real>& pass, int tiles) {
  const int64_t heads = pass.op.heads, chunks = pass.op.time / tile_tokens;
  const int64_t first = int64_t(blockIdx.x) * (tiles + 1) + 1;
  return {reinterpret_cast<const KeptState*>(pass.states) + first,
          kept_reach(pass.states, int64_t(gridDim.x) * (tiles + 1)) + first,
          pass.op.tau + blockIdx.x / heads * chunks * heads + blockIdx.x % heads,
          heads,
          tiles,
          int(chunks)};
}

// Between one barrier of the block and the next: the vectors of a tile, the products and slopes of
// the one after it, and the way back through the one after that.
template <class Real>
__device__ void make_vectors(const ReversePass<Real>& pass, FactorMemory<Real>& memory, int tiles,
                             int thread) {
  VectorMaker<Real> maker(memory.decays, pass, thread);
  maker.begin(tiles - 1, pass.op.time);
  for (int tile = tiles - 1; tile >= -2; --tile) {
    if (tile >= 0) maker.make(memory.tiles[tile % 3], tile);
    __syncthreads();
  }
}
// By one warp: the vectors and decays of a tile come nearer before their makers ask for them, a
// tile ahead, which is too late for memory when many heads ask.
template <class Real>
struct VectorBringer {
  static constexpr int ahead = 3;  // tiles, of the one that is made
  const ReversePass<Real>& pass;
  int64_t step, first;  // from token to token; of the first tile's

  __device__ explicit VectorBringer(const ReversePass<Real>& pass) : pass(pass) {
    const int64_t heads = pass.op.heads, token = threadIdx.x % tile_tokens;
    step = heads * head_size;
    first = (blockIdx.x / heads * pass.op.time + token) * step + blockIdx.x % heads * head_size;
  }
  __device__ void bring(int tile) const {
    const int64_t at = first + tile * tile_tokens * step;
    bring_rows_near(pass.op.a, pass.op.r, at), bring_rows_near(pass.op.b, pass.gradient.dy, at);
    bring_decays_near(pass.op.w, at);
  }
};
// Of states that owners ask for, or of none.
struct NoStates {
  __device__ void begin() {}
  __device__ void ask_for(int) {}
  __device__ void finish(int) {}
};
template <class Real, int groups, bool sane>
__device__ auto state_bringer(const ReversePass<Real>& pass,
                              ReverseMemory<Real, groups, sane>& memory, int tiles) {
  if constexpr (sane && groups > 1)
    return StateBringer{memory, ends_of_head(pass, tiles)};
  else
    return NoStates();
}
template <class Real, int groups, bool sane>
__device__ void make_products(const ReversePass<Real>& pass,
                              ReverseMemory<Real, groups, sane>& memory, int tiles) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t chunks = op.time / tile_tokens;
  constexpr int sharers = all_groups / groups;  // of a head
  float* const dtau =
      (sharers > 1 ? pass.dtau_parts : pass.gradient.dtau) +
      (blockIdx.x / op.heads * chunks * op.heads + blockIdx.x % op.heads) * sharers + blockIdx.y;
  const auto write_dtau_of = [&](int tile) {
    if constexpr (sane)
      if (tile < chunks) write_dtau(dtau + tile * op.heads * sharers, memory.dtau[tile % 2]);
  };
  const bool first_warp = Roles<groups, sane>::thread() < 32;
  const VectorBringer<Real> bringer(pass);
  const bool brings_states = sane && groups > 1 && !first_warp;
  auto states = state_bringer(pass, memory, tiles);
  if (brings_states) states.begin();
  for (int tile = tiles; tile >= -1; --tile) {
    if (brings_states) states.ask_for(tile - 2);
    if (tile >= 0 && tile < tiles) {
      ReverseFactors<Real>& factors = memory.tiles[tile % 3];
      Sums sums = meet_earlier<SplitSums<2>>(first_warp ? factors.a : factors.r, factors.b,
                                             first_warp ? 1 : 0);
      if (first_warp) sums = invert(sums, memory.ab);
      const Left<state_planes> made(sums);
      made.store(first_warp ? factors.inverse : factors.rb, 0, 0);
      if (first_warp) kept_gradient(pass, tiles, tile).M.set(0, 0, made);
    }
    if (const int brought = tile - 1 - bringer.ahead; groups > 1 && !first_warp && brought >= 0)
      bringer.bring(brought);
    if (!first_warp && tile + 2 < tiles) write_dtau_of(tile + 2);
    if (brings_states && tile > 0) states.finish(tile - 1);
    __syncthreads();
  }
  if (!first_warp) write_dtau_of(0);
}

// If the last tile ends before a chunk does it is as if a neutralization left 0. What is made of
// the tiles after the last and before the first nobody reads.
template <class Real>
__device__ void make_slopes(const ReversePass<Real>& pass, ReverseMemory<Real, 1, true>& memory,
                            int tiles) {
  const HeadEnds ends = ends_of_head(pass, tiles);
  SlopeMaker maker;
  SharedRows next;
  float next_tau = 1;
  const auto ask_for = [&](int tile) {
    next.load(ends.left[tile]);
    next_tau = __ldg(ends.tau + tile * ends.step);
  };
  next.clear(), maker.of_tau.clear();
  if (tiles <= ends.chunks) ask_for(tiles - 1);
  __syncthreads();
  for (int tile = tiles - 1; tile >= -1; --tile) {
    maker.x.set_scaled(next, reciprocal(next_tau));
    ask_for(max(tile - 1, 0));  // at the beginning, and always, as vectors are
    memory.dtau[(tile + 1) % 2][maker.lane] =
        maker.make(memory.gradients[(tile + 1) % 2], memory.tiles[(tile + 3) % 3].decay,
                   memory.slopes[(tile + 2) % 2]);
    __syncthreads();
  }
}

// An owner's tile. scale(n): makes D of a piece of the gradient after it. meanwhile: what else
// there is to do, when the tensor cores are waited for.
template <class Real, class Rows, class Scale, class Meanwhile>
__device__ void go_back_a_tile(Rows& D, const ReverseFactors<Real>& factors,
                               KeptGradient<Real>& kept, Scale&& scale, Meanwhile&& meanwhile) {
  const int row = Rows::first_row();
  Left<exact_planes<Real>> dy;
  dy.template load<Lies::transposed>(factors.given, row, 0);
  Right<state_planes> right;
  SplitSums<1> more[Rows::pieces / 2];  // of the tile's first state, besides D
  Sums z;
  {
    SplitSums<2> sums;
#pragma unroll
    for (int n = 0; n < Rows::pieces; n += 2) {
      scale(n), scale(n + 1);
      const Left<state_planes> part(D.x[n], D.x[n + 1]);
      kept.D.set(row, 8 * n, part);
      right.template load<Lies::transposed>(factors.b, 8 * n, 0);
      sums.add(part, right);
    }
    right.template load<Lies::straight>(factors.rb, 0, 0);
    sums.add(dy, right);
#pragma unroll
    for (int n = 0; n < Rows::pieces; n += 2) {
      right.template load<Lies::straight>(factors.r, 0, 8 * n);
      more[n / 2].add(dy, right);
    }
    z = sums.total();
  }
  Left<state_planes> left(z);
  {
    SplitSums<2> sums;
    right.template load<Lies::straight>(factors.inverse, 0, 0);
    sums.add(left, right);
    meanwhile();
    left = Left<state_planes>(sums.total());
  }
#pragma unroll
  for (int n = 0; n < Rows::pieces; n += 2) {
    right.template load<Lies::straight>(factors.a, 0, 8 * n);
    more[n / 2].add(left, right);
    D.add(n, more[n / 2].total());
  }
}

template <class Real, int groups, bool sane>
__device__ void go_back(const ReversePass<Real>& pass, ReverseMemory<Real, groups, sane>& memory,
                        int tiles) {
  using Rows = OwnRows<groups>;
  const int lane = threadIdx.x % 32;
  Rows D;
  if (pass.gradient.dfinal)
    D.load(pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries);
  else
    D.clear();
  int tile = tiles - 1;
  // The gradient after a tile, for who makes slopes.
  const auto hand_over_gradient_of = [&](int tile) {
    if constexpr (sane && groups == 1) {
#pragma unroll
      for (int n = 0; n < Rows::pieces; ++n) {
        const float(&d)[4] = D.x[n];
        memory.gradients[tile % 2][n][lane] = {d[0], d[1], d[2], d[3]};
      }
    }
  };
  // Blocks that share a head meet before a tile, others after it, with the next one's note at hand:
  // both by measurement.
  constexpr bool meet_before = groups == 1;
  const auto step = [&](auto&& scale, auto&& meanwhile) {
    if constexpr (meet_before) __syncthreads();
    const ReverseFactors<Real>& factors = memory.tiles[tile % 3];
    go_back_a_tile(
        D, factors, kept_gradient(pass, tiles, tile), [&](int n) { scale(n, factors.decay); },
        meanwhile);
    hand_over_gradient_of(tile + 1);  // of the tile before, which has the same place
    --tile;
    if constexpr (!meet_before) __syncthreads();
  };
  hand_over_gradient_of(tile);
  __syncthreads();
  if constexpr (!meet_before) __syncthreads();
  if constexpr (!sane) {
    while (tile >= 0) step([&](int n, const float* decay) { D.scale(n, decay); }, [] {});
  } else if constexpr (groups == 1) {
    while (tile >= 0)
      step([&](int n, const float*) { D.scale(n, memory.slopes[tile % 2][n][lane]); }, [] {});
  } else {
    StateRing::Note note = memory.note[tile % StateRing::places];
    // A loop for each, so that what tau takes may lie among everything else. All warps are in the
    // same one, and for long: the instruction cache has only that.
    const auto walk = [&]<Reach reach>() {
      do {
        OwnSlopes<Rows, reach> slopes(note.inverse_tau);
        const auto& state = memory.state[tile % StateRing::places].of[Rows::first_row() / 16];
        float& dtau = memory.dtau[tile % 2][Roles<groups, sane>::thread()];
        const auto& before = memory.note[(tile + StateRing::places - 1) % StateRing::places];
        step([&](int n, const float* decay) { slopes.scale(D, n, state[n][lane], decay); },
             [&] { dtau = slopes.dtau(), note = before; });
      } while (tile >= 0 && note.reach == reach);
    };
    while (tile >= 0)
      if (note.reach == Reach::tiny)
        walk.template operator()<Reach::tiny>();
      else if (note.reach == Reach::small)
        walk.template operator()<Reach::small>();
      else
        walk.template operator()<Reach::any>();
  }
  if constexpr (meet_before) __syncthreads();
  if (pass.gradient.dinitial) D.store(pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries);
}

template <class Real, int groups, bool sane>
__global__ __launch_bounds__(Roles<groups, sane>::threads,
                             1) void reverse_kernel(ReversePass<Real> pass) {
  using Roles = Roles<groups, sane>;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ReverseMemory<Real, groups, sane>*>(raw_memory);
  const int tiles = int((pass.op.time + tile_tokens - 1) / tile_tokens);
  BestOrder<groups, sane>::choose(Roles::role(), [&]<Role role>() {
    if constexpr (role == Role::owner) {
      go_back(pass, memory, tiles);
    } else if constexpr (role == Role::vector_maker) {
      int thread = Roles::thread();
      // Otherwise the compiler finds it again in every tile, 35 instructions; with SANE that is
      // faster nevertheless.
      if constexpr (!sane) find_here(thread);
      make_vectors<Real>(pass, memory, tiles, thread);
    } else if constexpr (role == Role::product_maker) {
      make_products(pass, memory, tiles);
    } else if constexpr (sane && groups == 1) {
      make_slopes(pass, memory, tiles);
    }
  });
}

template <int groups, bool sane, class Real>
void launch_reverse(const ReversePass<Real>& pass, const Gpu& gpu) {
  launch(reverse_kernel<Real, groups, sane>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads), all_groups / groups),
              dim3(Roles<groups, sane>::threads), sizeof(ReverseMemory<Real, groups, sane>)},
         gpu, pass);
}
template <int groups, class Real>
void launch_reverse(const ReversePass<Real>& pass, const Gpu& gpu) {
  if (pass.op.tau && pass.op.time >= tile_tokens)
    launch_reverse<groups, true>(pass, gpu);
  else
    launch_reverse<groups, false>(pass, gpu);
}

}  // namespace

template <class Real>
bool blocks_share_heads(int64_t heads, const Gpu& gpu) {
  return all_groups * heads <= gpu.facts().multiprocessors ||
         sizeof(ReverseMemory<Real, all_groups, true>) > gpu.facts().shared_bytes;
}

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  if (pass.dtau_parts)
    launch_reverse<1>(pass, gpu);
  else
    launch_reverse<all_groups>(pass, gpu);
}

template bool blocks_share_heads<float>(int64_t, const Gpu&);
template bool blocks_share_heads<bf16>(int64_t, const Gpu&);
template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
