// The terms of a tile where each key channel has its decay: a block per tile.
//
// The tile is cut into halves of 8 tokens. Inside a half, L and P are summed pair by pair of tokens:
// a thread has two channels of a half, and multiplies k_s by one decay after the other. Between the
// halves they are products on the tensor cores, of the second half with its decays since the cut and
// of the first half with its decays up to the cut. No factor is above 1, and one that is rounded to
// 0 belongs to a product that is smaller still.
#include "base/choose.h"
#include "kernel/cuda/memory_order.cuh"
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/gated_cuda/terms.cuh"
#include "kernel/delta_rule/gated_cuda/terms_passes.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int half = tile_size / 2, pairs = half * half;

// Threads of a half; whole warps. Warps of both.
template <int keys>
constexpr int half_threads = (keys / 2 + 31) / 32 * 32;
template <int keys>
constexpr int terms_warps = 2 * half_threads<keys> / 32;

template <int keys>
struct TermsMemory {
  unsigned next[2];                                  // tile of the block, in turns
  SplitMatrix<gated_planes, 2 * half, keys> second;  // k, then r, of the second half
  SplitMatrix<gated_planes, half, keys> first;
  SplitMatrix<gated_planes, tile_size, keys> k_in;
  TileMatrix inverse;
  float sums[terms_warps<keys>][pairs];             // of a warp's channels, as in sum_pairs
  float between[terms_warps<keys>][2][half][half];  // likewise, of L and of P
  alignas(16) float L[tile_size][tile_size + 4], P[tile_size][tile_size + 4];  // times beta
  float beta[tile_size];
  DecayFactor g;  // of SANE after the tile
};

struct Two {
  float x = 0, y = 0;
  __device__ static Two of_bf16(uint32_t bits) {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
  __device__ Two operator*(Two o) const { return {x * o.x, y * o.y}; }
  __device__ Two operator*(float f) const { return {x * f, y * f}; }
  __device__ float dot(Two o, float sum) const { return fmaf(x, o.x, fmaf(y, o.y, sum)); }
};
template <class Matrix>
__device__ void set(Matrix& to, int row, int channel, Two x) {
  to.set(row, channel, {x.x, x.y});
}

// What a thread has of its half: two channels.
struct HalfVectors {
  Two k[half], r[half], w[half];
  Two other = {1, 1};  // the decay of the whole other half

  // k and r: of the half's first token; g: of the tile's. own: the half's first token in the tile.
  // present: a bit for each token; `whole` says that all are. All loads are issued before the first
  // exponential: without branches between them, that is one latency and not one for each token.
  template <bool whole>
  __device__ void load(const uint32_t* k_at, const uint32_t* r_at, int step, const float2* g_at,
                       int g_step, int own, uint32_t present) {
    uint32_t k_bits[half], r_bits[half];
    float2 log[half], other_log[half];
    const auto load_if = [present](auto& to, const auto* at, int token) {
      to = {};
      if (whole || present >> token & 1) to = __ldg(at);
    };
#pragma unroll
    for (int i = 0; i < half; ++i) {
      load_if(k_bits[i], k_at + i * step, own + i), load_if(r_bits[i], r_at + i * step, own + i);
      load_if(log[i], g_at + (own + i) * g_step, own + i);
      const int others = half - own + i;
      load_if(other_log[i], g_at + others * g_step, others);
    }
    float2 sum{};
#pragma unroll
    for (int i = 0; i < half; ++i) {
      k[i] = Two::of_bf16(k_bits[i]), r[i] = Two::of_bf16(r_bits[i]);
      w[i] = {decay_of(log[i].x), decay_of(log[i].y)};
      sum.x += other_log[i].x, sum.y += other_log[i].y;
    }
    other = {decay_of(sum.x), decay_of(sum.y)};
  }
};

// L_ts of a half, for s < t, in place (t, s) of 8 x 8; P_ts, for s <= t, in place (s, t).
__device__ inline void sum_pairs(const HalfVectors& x, float (&sums)[2][pairs / 2]) {
  const auto at = [&](int row, int column) -> float& {
    return sums[(row * half + column) / 32][(row * half + column) % 32];
  };
#pragma unroll
  for (int s = 0; s < half; ++s) {
    Two k = x.k[s];
    at(s, s) = x.r[s].dot(k, 0);
#pragma unroll
    for (int t = s + 1; t < half; ++t) {
      k = k * x.w[t];
      at(t, s) = x.k[t].dot(k, 0);
      at(s, t) = x.r[t].dot(k, 0);
    }
  }
}

// L and P between the halves: each warp's sums over some channels.
template <int keys>
__device__ void multiply_halves(TermsMemory<keys>& memory) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float large[4] = {}, small[2][4] = {};
#pragma unroll
  for (int i = 0; i < keys; i += 32 * terms_warps<keys>) {
    const int channel = i + 32 * warp;
    if (keys % (32 * terms_warps<keys>) != 0 && channel >= keys) break;
    uint32_t b[gated_planes][4];  // of 16 channels, and of the next 16
#pragma unroll
    for (int p = 0; p < gated_planes; ++p)
      load_matrices<Layout::row_major>(b[p], memory.first.at(p, lane % 8, channel + lane / 8 * 8));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      FragmentA<gated_planes> a;
      a.template load<Layout::row_major>(memory.second, 0, channel + 16 * i);
      mma(large, a.plane[0], b[0][2 * i], b[0][2 * i + 1]);
      mma(small[0], a.plane[0], b[1][2 * i], b[1][2 * i + 1]);
      mma(small[1], a.plane[1], b[0][2 * i], b[0][2 * i + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    memory.between[warp][i / 2][lane / 4][lane % 4 * 2 + i % 2] =
        large[i] + (small[0][i] + small[1][i]);
}

// after_loads() is called when the tile's vectors are there.
template <int keys, class AfterLoads>
__device__ void make_terms(const GatedRule& op, const TileOfHead& of, TermsMemory<keys>& memory,
                           PerChannelTerms<keys>& terms, TermsFor direction,
                           const AfterLoads& after_loads) {
  constexpr int threads = 2 * half_threads<keys>;
  const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int mine = thread / half_threads<keys>;  // which half
  const int channel = thread % half_threads<keys> * 2;
  const int tile = of.tile;
  const int64_t sequence = of.sequence, head = of.head;
  const Tiles tiles(op, sequence);
  if (tile >= tiles.count()) return after_loads();
  const int first = tiles.first(tile);
  HalfVectors x;
  const uint32_t present = tiles.mask(tile);
  // Loaded before the vectors, and stored after them: other warps wait for it.
  float beta = 0, tau = 0;
  if (thread < tile_size && present >> thread & 1)
    beta = __ldg(op.beta + (sequence * op.time + first + thread) * op.heads + head);
  if (thread == half_threads<keys>) tau = tau_after(op, tiles, sequence, head, tile);
  if (channel < keys) {
    const Rows rows = key_rows(op, sequence, head);
    const Rows decays = head_rows(op, sequence, head, keys);
    const int own = mine * half;
    const auto* const k =
        reinterpret_cast<const uint32_t*>(op.k + rows.first + (first + own) * rows.step + channel);
    const auto* const r =
        reinterpret_cast<const uint32_t*>(op.r + rows.first + (first + own) * rows.step + channel);
    const auto* const g =
        reinterpret_cast<const float2*>(op.g + decays.first + first * decays.step + channel);
    const int step = int(rows.step) / 2, g_step = int(decays.step) / 2;
    if (present == whole_tile)
      x.load<true>(k, r, step, g, g_step, own, present);
    else
      x.load<false>(k, r, step, g, g_step, own, present);
  }
  after_loads();
  if (thread < tile_size) memory.beta[thread] = beta;
  if (thread == half_threads<keys>) {
    const Boundary boundary(tau);
    memory.g = direction == TermsFor::forward ? boundary.factor : DecayFactor();
    terms.sane = TanhOfSmall(tau), terms.tiny = TinyTerms(boundary, 0);
  }
  __syncthreads();
  if (channel < keys) {
    Two since = {1, 1};
#pragma unroll
    for (int i = 0; i < half; ++i) {
      since = since * x.w[i];
      const Two k = x.k[i] * since, r = x.r[i] * since;
      if (mine == 1) {
        set(memory.second, i, channel, k), set(memory.second, half + i, channel, r);
        set(memory.k_in, half + i, channel, k * x.other);
      } else {
        set(memory.k_in, i, channel, k);
      }
      const Two q = mine == 1 ? r * x.other : r;
      if (direction == TermsFor::backward)
        set(terms.q_in, mine * half + i, channel, q);
      else
        *reinterpret_cast<uint32_t*>(terms.q_in.at(0, mine * half + i, channel)) =
            pack_bf16(q.x, q.y);
    }
    Two up_to = {1, 1};
#pragma unroll
    for (int i = half - 1; i >= 0; --i) {
      const Two k = x.k[i] * up_to;
      if (mine == 0) set(memory.first, i, channel, k);
      set(terms.k_out, mine * half + i, channel,
          (mine == 0 ? k * x.other : k) * memory.g.times(memory.beta[mine * half + i]));
      up_to = up_to * x.w[i];
    }
    const Two decay = up_to * x.other;
    if (mine == 0)
      terms.decay[channel] = memory.g.times(decay.x),
      terms.decay[channel + 1] = memory.g.times(decay.y);
  }
  float sums[2][pairs / 2];
  sum_pairs(x, sums);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    memory.sums[warp][32 * i + lane] = reduce_scatter<pairs / 2, 16>(sums[i]);
  __syncthreads();

  multiply_halves(memory);
  __syncthreads();
  for (int i = thread; i < 2 * pairs; i += threads) {
    constexpr int warps = half_threads<keys> / 32;
    const int of = i / pairs, place = i % pairs, row = place / half, column = place % half;
    float sum = 0, across = 0;
    for (int w = 0; w < warps; ++w) sum += memory.sums[of * warps + w][place];
    const auto set = [&](auto& matrix, int t, int s, float x) {
      matrix[t][s] = x * memory.beta[s];
    };
    if (row > column)
      set(memory.L, of * half + row, of * half + column, sum);
    else
      set(memory.P, of * half + column, of * half + row, sum);
    for (int w = 0; w < terms_warps<keys>; ++w) across += memory.between[w][of][row][column];
    set(of == 0 ? memory.L : memory.P, half + row, column, across);
  }
  __syncthreads();

  // The first warp inverts; the others do what else is to be done.
  for (int i = thread - 32; i >= 0 && i < tile_size * tile_size; i += threads - 32) {
    const int t = i / tile_size, s = i % tile_size;
    terms.read.set(t, s, s <= t ? memory.P[t][s] : 0.0f);
  }
  if (thread < tile_size) {
    float T[tile_size];
    invert(memory.L, thread, T);
#pragma unroll
    for (int t = 0; t < tile_size; ++t)
      terms.inverse.set(t, thread, T[t]), memory.inverse.set(t, thread, T[t]);
  }
  __syncthreads();
  FragmentA<gated_planes> inverse;
  inverse.template load<Layout::row_major>(memory.inverse, 0, 0);
  for (int column = 16 * warp; column < keys; column += threads / 2) {
    FragmentB<gated_planes> k_in;
    k_in.template load<Layout::row_major>(memory.k_in, 0, column);
    SplitAccumulator<1> sums;
    sums.add(inverse, k_in);
    terms.w.store(FragmentA<gated_planes>(sums.total()), column);
  }
}

template <int keys>
__global__ __launch_bounds__(2 * half_threads<keys>, 384 / half_threads<keys>) void terms_kernel(
    GatedRule op, int all_tiles, PerChannelTerms<keys>* all, TermsFor direction,
    TileProgress progress) {
  trigger_dependent_launch();
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<TermsMemory<keys>*>(dynamic_shared);
  const bool leader = threadIdx.x == 0;
  const unsigned count = unsigned(op.batch * op.heads) * all_tiles;
  unsigned which = blockIdx.x;
  for (int turn = 0; which < count; turn ^= 1) {
    const uint32_t claimed = progress.ready && leader ? atomicAdd(progress.claimed, 1u) : 0;
    const TileOfHead of(op, which, all_tiles,
                        progress.ready ? TileOrder::by_token : TileOrder::by_head);
    make_terms(op, of, memory, all[of.place], direction, [&] {
      if (leader) memory.next[turn] = gridDim.x + claimed;
    });
    if (!progress.ready) return;
    __syncthreads();  // all stores of the terms are issued, and the shared memory is free
    if (leader) store_release(progress.ready + of.place, 1);
    which = memory.next[turn];
  }
}

// Blocks of a multiprocessor that leave room for a block of the pass over the states.
constexpr int beside = 2;

}  // namespace

void per_channel_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const int64_t tiles = tile_count(op);
  const unsigned blocks = terms_blocks(pass, op.batch * op.heads * tiles, beside, gpu);
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    using Terms = PerChannelTerms<keys>;
    if (pass.progress.ready) prefer_shared_carveout(terms_kernel<keys>);
    launch(terms_kernel<keys>, {blocks, 2 * half_threads<keys>, sizeof(TermsMemory<keys>)}, gpu, op,
           int(tiles), static_cast<Terms*>(pass.terms), direction, pass.progress);
  });
}

}  // namespace deltasane::kernel::cuda
