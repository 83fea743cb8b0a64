// Backward through the states, from the last tile to the first, on the tensor cores: one block per
// head. A consumer warp holds each 16 rows of the gradient of the state; four producer warps make
// the operands of tiles to come (operands.cuh). For few heads there is a block for each 16 rows,
// where warps compete less for the schedulers.
//
// The consumers also compute SANE's derivatives (consumer_derivatives.cuh). Blocks of 16 rows have
// one more warp for them (producer_derivatives.cuh): their consumer has a scheduler for itself, and
// all others wait for it.
//
// Each role has code of its own, and all of it must fit into the instruction cache: with 34 KB of
// it alternating, a tile took half as long again. What can be a loop is one.
#include <type_traits>

#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/delta_rule/cuda/consumer_derivatives.cuh"
#include "kernel/delta_rule/cuda/operands.cuh"
#include "kernel/delta_rule/cuda/producer_derivatives.cuh"
#include "kernel/delta_rule/cuda/state_backward_roles.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int all_groups = head_size / warp_rows;
constexpr int vector_producer_threads = 64;
template <int groups>
using ConsumerRows = StateFragment<head_size, groups>;

// While the consumers are at one tile, the products of the next are made (and its derivatives), and
// the vectors of the one after it.
template <class Real, SharedMemory shared>
struct OperandMemory {
  BackwardOperands<Real, shared> tiles[3];
  DecayMatrix decays;                                  // W
  alignas(16) float ab[tile_tokens][tile_tokens + 4];  // and its inverse
};
template <int groups>
struct SaneMemory : std::conditional_t<groups == 1, DerivativeMemory, StateRing> {
  float dtau[2][32 * groups];  // parts of tau's gradient
};
struct Nothing {};
template <class Real, int groups, bool sane, SharedMemory shared>
struct BackwardMemory : OperandMemory<Real, shared>,
                        std::conditional_t<sane, SaneMemory<groups>, Nothing> {};

// Makes the vectors of a tile out of inputs in registers, and loads those of the tile before it.
template <class Real>
struct VectorProducer {
  static constexpr int own_tokens = tile_tokens * head_size / 8 / vector_producer_threads;
  static_assert(vector_producer_threads == head_size);  // each has the decays of a channel
  struct Vectors {
    Packed<Real> a, r, b, dy;
  };
  DecayMatrix& decays;
  int thread;
  int first_token, part;  // of the vectors: this thread's first token, the first of its 8 channels
  int64_t step;           // from token to token
  const Real *a, *r, *b, *dy;
  const float* w;
  Vectors next[own_tokens];
  float next_w[tile_tokens];

  __device__ VectorProducer(DecayMatrix& decays, const BackwardPass<Real>& pass, int thread)
      : decays(decays), thread(thread), first_token(thread / 8 * own_tokens), part(thread % 8 * 8) {
    const DeltaRule<Real>& op = pass.op;
    step = op.heads * head_size;
    const int64_t first =
        (blockIdx.x / op.heads * op.time * op.heads + blockIdx.x % op.heads) * head_size;
    const int64_t mine = first + min(int64_t(first_token), op.time - 1) * step + part;
    a = op.a + mine, r = op.r + mine, b = op.b + mine, dy = pass.gradient.dy + mine;
    w = op.w + first + thread;
  }

  __device__ void load_vectors(int64_t tile, int i) {  // of this thread's i-th token
    const int64_t at = (tile * tile_tokens + i) * step;
    next[i].a.load_constant(a + at), next[i].r.load_constant(r + at);
    next[i].b.load_constant(b + at), next[i].dy.load_constant(dy + at);
  }
  __device__ void load_decays(int64_t tile, int count) {
    const float* const from = w + tile * tile_tokens * step;
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) next_w[t] = t < count ? __ldg(from + t * step) : 1;
  }

  // The last tile, which may have fewer tokens.
  __device__ void begin(int tile, int64_t time) {
    const int count = int(time - tile * tile_tokens);
    load_decays(tile, count);
#pragma unroll
    for (int i = 0; i < own_tokens; ++i)
      if (first_token + i < count) load_vectors(tile, i);
    if (time < tile_tokens) step = 0;  // see make: there are no 16 tokens to be loaded again
  }

  // Always loads the tile before, for the first tile itself again: a conditional load would go
  // through other registers.
  template <class Operands>
  __device__ void make(Operands& to, int tile) {
    const int before = max(tile - 1, 0);
    Vectors here[own_tokens];
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) here[i] = next[i];
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) load_vectors(before, i);
    float decay = 1;
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) *decays.at(t, thread) = decay *= next_w[t];
    to.decay[thread] = decay;
    load_decays(before, tile_tokens);
    named_barrier<1, vector_producer_threads>();
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
      set_exact(to.values, t, part, here[0].dy);
#pragma unroll
      for (int later = 1; later < own_tokens; ++later) here[later - 1] = here[later];
    }
    named_barrier<1, vector_producer_threads>();  // the block's would do, but not for racecheck
  }
};

template <class Real>
__device__ SavedGradient<Real>& saved_gradient(const BackwardPass<Real>& pass, int tiles,
                                               int tile) {
  return reinterpret_cast<SavedGradient<Real>*>(pass.dstates)[int64_t(blockIdx.x) * tiles + tile];
}

// (I - AB)^-1, by one warp. memory: its workspace.
using SquareMemory = float[tile_tokens][tile_tokens + 4];
__device__ Accumulator invert(const Accumulator& ab, SquareMemory& memory) {
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
  Accumulator inverse;
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
__device__ void store_dtau(float* to, const float (&parts)[count]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < count; i += 32) sum += parts[i + threadIdx.x % 32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) *to = sum;
}

template <class Real>
__device__ HeadBoundaries head_boundaries(const BackwardPass<Real>& pass, int tiles) {
  const int64_t heads = pass.op.heads, chunks = pass.op.time / tile_tokens;
  const int64_t first = int64_t(blockIdx.x) * (tiles + 1) + 1;
  return {reinterpret_cast<const SavedState*>(pass.states) + first,
          saved_magnitudes(pass.states, int64_t(gridDim.x) * (tiles + 1)) + first,
          pass.op.tau + blockIdx.x / heads * chunks * heads + blockIdx.x % heads,
          heads,
          tiles,
          int(chunks)};
}

// Between one barrier of the block and the next: the vectors of a tile, the products and
// derivatives of the one after it, and the backward step through the one after that.
template <class Real, SharedMemory shared>
__device__ void produce_vectors(const BackwardPass<Real>& pass, OperandMemory<Real, shared>& memory,
                                int tiles, int thread) {
  VectorProducer<Real> producer(memory.decays, pass, thread);
  producer.begin(tiles - 1, pass.op.time);
  for (int tile = tiles - 1; tile >= -2; --tile) {
    if (tile >= 0) producer.make(memory.tiles[tile % 3], tile);
    __syncthreads();
  }
}
// By one warp: prefetches the vectors and decays of a tile into L2, before the producers load them
// a tile ahead, which is too late for memory when there are many heads.
template <class Real>
struct VectorPrefetcher {
  static constexpr int ahead = 3;  // tiles, of the one that is made
  const BackwardPass<Real>& pass;
  int64_t step, first;  // from token to token; of the first tile's

  __device__ explicit VectorPrefetcher(const BackwardPass<Real>& pass) : pass(pass) {
    const int64_t heads = pass.op.heads, token = threadIdx.x % tile_tokens;
    step = heads * head_size;
    first = (blockIdx.x / heads * pass.op.time + token) * step + blockIdx.x % heads * head_size;
  }
  __device__ void prefetch(int tile) const {
    const int64_t at = first + tile * tile_tokens * step;
    prefetch_rows(pass.op.a, pass.op.r, at), prefetch_rows(pass.op.b, pass.gradient.dy, at);
    prefetch_decays(pass.op.w, at);
  }
};
// The loader of the consumers' states, where they need them.
struct NoStateLoader {
  __device__ void begin() {}
  __device__ void load(int) {}
  __device__ void wait(int) {}
};
template <class Real, int groups, bool sane, SharedMemory shared>
__device__ auto state_loader(const BackwardPass<Real>& pass,
                             BackwardMemory<Real, groups, sane, shared>& memory, int tiles) {
  if constexpr (sane && groups > 1)
    return StateLoader{memory, head_boundaries(pass, tiles)};
  else
    return NoStateLoader();
}
template <class Real, int groups, bool sane, SharedMemory shared>
__device__ void produce_products(const BackwardPass<Real>& pass,
                                 BackwardMemory<Real, groups, sane, shared>& memory, int tiles) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t chunks = op.time / tile_tokens;
  constexpr int sharers = all_groups / groups;  // of a head
  float* const dtau =
      (sharers > 1 ? pass.dtau_parts : pass.gradient.dtau) +
      (blockIdx.x / op.heads * chunks * op.heads + blockIdx.x % op.heads) * sharers + blockIdx.y;
  const auto store_dtau_of = [&](int tile) {
    if constexpr (sane)
      if (tile < chunks) store_dtau(dtau + tile * op.heads * sharers, memory.dtau[tile % 2]);
  };
  const bool first_warp = ThreadRole<groups, sane>::thread() < 32;
  const VectorPrefetcher<Real> prefetcher(pass);
  const bool loads_states = sane && groups > 1 && !first_warp;
  auto states = state_loader(pass, memory, tiles);
  if (loads_states) states.begin();
  for (int tile = tiles; tile >= -1; --tile) {
    if (loads_states) states.load(tile - 2);
    if (tile >= 0 && tile < tiles) {
      auto& operands = memory.tiles[tile % 3];
      Accumulator sums = causal_product<SplitAccumulator<2>>(first_warp ? operands.a : operands.r,
                                                             operands.b, first_warp ? 1 : 0);
      if (first_warp) sums = invert(sums, memory.ab);
      const FragmentA<state_planes> made(sums);
      made.store(first_warp ? operands.inverse : operands.rb, 0, 0);
      if (first_warp) saved_gradient(pass, tiles, tile).M.set(0, 0, made);
    }
    if (const int later = tile - 1 - prefetcher.ahead; groups > 1 && !first_warp && later >= 0)
      prefetcher.prefetch(later);
    if (!first_warp && tile + 2 < tiles) store_dtau_of(tile + 2);
    if (loads_states && tile > 0) states.wait(tile - 1);
    __syncthreads();
  }
  if (!first_warp) store_dtau_of(0);
}

// If the last tile ends before a chunk does, it is as if a neutralization left 0. What is made for
// the tiles after the last and before the first is not read.
template <class Real, SharedMemory shared>
__device__ void produce_derivatives(const BackwardPass<Real>& pass,
                                    BackwardMemory<Real, 1, true, shared>& memory, int tiles) {
  const HeadBoundaries boundaries = head_boundaries(pass, tiles);
  DerivativeProducer producer;
  BlockRows next;
  float next_tau = 1;
  const auto load = [&](int tile) {
    next.load(boundaries.state[tile]);
    next_tau = __ldg(boundaries.tau + tile * boundaries.step);
  };
  next.clear(), producer.by_tau.clear();
  if (tiles <= boundaries.chunks) load(tiles - 1);
  __syncthreads();
  for (int tile = tiles - 1; tile >= -1; --tile) {
    producer.x.set_scaled(next, reciprocal(next_tau));
    load(max(tile - 1, 0));  // first, and unconditionally, as vectors are
    memory.dtau[(tile + 1) % 2][producer.lane] =
        producer.make(memory.gradients[(tile + 1) % 2], memory.tiles[(tile + 3) % 3].decay,
                      memory.derivatives[(tile + 2) % 2]);
    __syncthreads();
  }
}

// A consumer's tile. scale(n): makes D of a piece of the gradient after it. overlap(): other work,
// while the tensor cores are waited for.
template <class Real, class Rows, class Operands, class Scale, class Overlap>
__device__ void backward_tile(Rows& D, const Operands& operands, SavedGradient<Real>& saved,
                              Scale&& scale, Overlap&& overlap) {
  const int row = Rows::first_row();
  FragmentA<exact_planes<Real>> dy;
  load_values(dy, operands.values, row);
  FragmentB<state_planes> right;
  SplitAccumulator<1> more[Rows::pieces / 2];  // the gradient of the tile's first state, besides D
  Accumulator z;
  {
    SplitAccumulator<2> sums;
#pragma unroll
    for (int n = 0; n < Rows::pieces; n += 2) {
      scale(n), scale(n + 1);
      const FragmentA<state_planes> part(D.x[n], D.x[n + 1]);
      saved.D.set(row, 8 * n, part);
      right.template load<Layout::transposed>(operands.b, 8 * n, 0);
      sums.add(part, right);
    }
    right.template load<Layout::row_major>(operands.rb, 0, 0);
    sums.add(dy, right);
#pragma unroll
    for (int n = 0; n < Rows::pieces; n += 2) {
      right.template load<Layout::row_major>(operands.r, 0, 8 * n);
      more[n / 2].add(dy, right);
    }
    z = sums.total();
  }
  FragmentA<state_planes> left(z);
  {
    SplitAccumulator<2> sums;
    right.template load<Layout::row_major>(operands.inverse, 0, 0);
    sums.add(left, right);
    overlap();
    left = FragmentA<state_planes>(sums.total());
  }
#pragma unroll
  for (int n = 0; n < Rows::pieces; n += 2) {
    right.template load<Layout::row_major>(operands.a, 0, 8 * n);
    more[n / 2].add(left, right);
    D.add(n, more[n / 2].total());
  }
}

template <class Real, int groups, bool sane, SharedMemory shared>
__device__ void consume_tiles(const BackwardPass<Real>& pass,
                              BackwardMemory<Real, groups, sane, shared>& memory, int tiles) {
  using Rows = ConsumerRows<groups>;
  const int lane = threadIdx.x % 32;
  Rows D;
  if (pass.gradient.dfinal)
    D.load(pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries);
  else
    D.clear();
  int tile = tiles - 1;
  // The gradient after a tile, for the derivative producer.
  const auto store_gradient_of = [&](int tile) {
    if constexpr (sane && groups == 1) {
#pragma unroll
      for (int n = 0; n < Rows::pieces; ++n) {
        const float(&d)[4] = D.x[n];
        memory.gradients[tile % 2][n][lane] = {d[0], d[1], d[2], d[3]};
      }
    }
  };
  // Blocks that share a head have their barrier before a tile, others after it, with the next one's
  // summary at hand: both chosen by measurement.
  constexpr bool barrier_before = groups == 1;
  const auto step = [&](auto&& scale, auto&& overlap) {
    if constexpr (barrier_before) __syncthreads();
    const auto& operands = memory.tiles[tile % 3];
    backward_tile<Real>(
        D, operands, saved_gradient(pass, tiles, tile), [&](int n) { scale(n, operands.decay); },
        overlap);
    store_gradient_of(tile + 1);  // of the tile before, which has the same buffer
    --tile;
    if constexpr (!barrier_before) __syncthreads();
  };
  store_gradient_of(tile);
  __syncthreads();
  if constexpr (!barrier_before) __syncthreads();
  if constexpr (!sane) {
    while (tile >= 0) step([&](int n, const float* decay) { D.scale(n, decay); }, [] {});
  } else if constexpr (groups == 1) {
    while (tile >= 0)
      step([&](int n, const float*) { D.scale(n, memory.derivatives[tile % 2][n][lane]); }, [] {});
  } else {
    StateRing::Summary summary = memory.summary[tile % StateRing::stages];
    // A loop for each magnitude class, so that the work for tau can be scheduled among everything
    // else. All warps are in the same one, and for long: the instruction cache has only that.
    const auto walk = [&]<Magnitude magnitude>() {
      do {
        ConsumerDerivatives<Rows, magnitude> derivatives(summary.inverse_tau);
        const auto& state = memory.state[tile % StateRing::stages].of[Rows::first_row() / 16];
        float& dtau = memory.dtau[tile % 2][ThreadRole<groups, sane>::thread()];
        const auto& before = memory.summary[(tile + StateRing::stages - 1) % StateRing::stages];
        step([&](int n, const float* decay) { derivatives.scale(D, n, state[n][lane], decay); },
             [&] { dtau = derivatives.dtau(), summary = before; });
      } while (tile >= 0 && summary.magnitude == magnitude);
    };
    while (tile >= 0)
      if (summary.magnitude == Magnitude::tiny)
        walk.template operator()<Magnitude::tiny>();
      else if (summary.magnitude == Magnitude::small)
        walk.template operator()<Magnitude::small>();
      else
        walk.template operator()<Magnitude::any>();
  }
  if constexpr (barrier_before) __syncthreads();
  if (pass.gradient.dinitial) D.store(pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries);
}

template <class Real, int groups, bool sane, SharedMemory shared>
__global__ __launch_bounds__(ThreadRole<groups, sane>::threads,
                             1) void state_backward_kernel(BackwardPass<Real> pass) {
  using Thread = ThreadRole<groups, sane>;
  using Memory = BackwardMemory<Real, groups, sane, shared>;
  static_assert(shared == SharedMemory::ample || sizeof(Memory) <= limited_shared_bytes);
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<Memory*>(dynamic_shared);
  const int tiles = int((pass.op.time + tile_tokens - 1) / tile_tokens);
  BestCodeOrder<groups, sane>::choose(Thread::role(), [&]<Role role>() {
    if constexpr (role == Role::consumer) {
      consume_tiles(pass, memory, tiles);
    } else if constexpr (role == Role::vector_producer) {
      int thread = Thread::thread();
      // Otherwise the compiler computes it again in every tile, 35 instructions; with SANE that is
      // faster nevertheless.
      if constexpr (!sane) optimization_barrier(thread);
      produce_vectors<Real, shared>(pass, memory, tiles, thread);
    } else if constexpr (role == Role::product_producer) {
      produce_products(pass, memory, tiles);
    } else if constexpr (sane && groups == 1) {
      produce_derivatives(pass, memory, tiles);
    }
  });
}

template <int groups, SharedMemory shared, bool sane, class Real>
void launch_state_backward(const BackwardPass<Real>& pass, const Gpu& gpu) {
  launch(state_backward_kernel<Real, groups, sane, shared>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads), all_groups / groups),
              dim3(ThreadRole<groups, sane>::threads),
              sizeof(BackwardMemory<Real, groups, sane, shared>)},
         gpu, pass);
}
template <int groups, SharedMemory shared, class Real>
void launch_state_backward(const BackwardPass<Real>& pass, const Gpu& gpu) {
  if (pass.op.tau && pass.op.time >= tile_tokens)
    launch_state_backward<groups, shared, true>(pass, gpu);
  else
    launch_state_backward<groups, shared, false>(pass, gpu);
}
template <class Real, int groups>
bool fits_ample(const Gpu& gpu) {
  return sizeof(BackwardMemory<Real, groups, true, SharedMemory::ample>) <=
         gpu.properties().shared_bytes;
}

}  // namespace

template <class Real>
bool blocks_share_heads(int64_t heads, const Gpu& gpu) {
  return all_groups * heads <= gpu.properties().multiprocessors ||
         !fits_ample<Real, all_groups>(gpu);
}

template <class Real>
void state_backward(const BackwardPass<Real>& pass, const Gpu& gpu) {
  if (!pass.dtau_parts)
    launch_state_backward<all_groups, SharedMemory::ample>(pass, gpu);
  else if (fits_ample<Real, 1>(gpu))
    launch_state_backward<1, SharedMemory::ample>(pass, gpu);
  else
    launch_state_backward<1, SharedMemory::limited>(pass, gpu);
}

template bool blocks_share_heads<float>(int64_t, const Gpu&);
template bool blocks_share_heads<bf16>(int64_t, const Gpu&);
template void state_backward(const BackwardPass<float>&, const Gpu&);
template void state_backward(const BackwardPass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
