// The terms of a tile where one decay is for all channels of a head: a warp per tile.
#include "base/choose.h"
#include "kernel/cuda/memory_order.cuh"
#include "kernel/delta_rule/gated_cuda/terms.cuh"
#include "kernel/delta_rule/gated_cuda/terms_passes.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4;

struct WarpMemory {
  PerHeadTerms terms;                          // stored as a whole: parts of lines take longer
  float decays[tile_size + 1][tile_size + 4];  // see decays_between
  alignas(16) float beta[tile_size];
  float a[tile_size][tile_size + 4];  // L diag(beta)
};

// The rows of the tile's vectors that this lane has in operand A; zeros for a missing token. A product
// is a sum over channels, in any order that is the same for both operands: a lane has 8 neighbours.
struct TileRows {
  const bf16 *row, *below;  // by 8 tokens
  bool present, present_below;
  __device__ TileRows(const bf16* from, int64_t step, const Tiles& tiles, int first) {
    const int lane = threadIdx.x % 32, t = lane / 4;
    row = from + (first + t) * step + lane % 4 * 8, below = row + 8 * step;
    present = tiles.present(first + t), present_below = tiles.present(first + t + 8);
  }
  __device__ static uint4 eight(const bf16* at, bool wanted) {
    return wanted ? __ldg(reinterpret_cast<const uint4*>(at)) : uint4{};
  }
  // Operands A of 32 channels. whole: no token is missing.
  template <bool whole>
  __device__ void load(uint32_t (&x)[2][4], int channel) const {
    const uint4 upper = eight(row + channel, whole || present),
                lower = eight(below + channel, whole || present_below);
    x[0][0] = upper.x, x[0][1] = lower.x, x[0][2] = upper.y, x[0][3] = lower.y;
    x[1][0] = upper.z, x[1][1] = lower.z, x[1][2] = upper.w, x[1][3] = lower.w;
  }
};

template <int keys>
__device__ void make_terms(const GatedRule& op, const TileOfHead& of, WarpMemory& memory,
                           PerHeadTerms& result) {
  const int lane = threadIdx.x % 32, tile = of.tile;
  const int64_t sequence = of.sequence, head = of.head;
  const Tiles tiles(op, sequence);
  if (tile >= tiles.count()) return;
  const int first = tiles.first(tile);

  // Lane t has token t's g and beta.
  const int64_t token = (sequence * op.time + first + lane) * op.heads + head;
  const bool present = lane < tile_size && tiles.present(first + lane);
  const float g = present && op.g ? op.g[token] : 0.0f, beta = present ? op.beta[token] : 0.0f;
  const float tau = tau_after(op, tiles, sequence, head, tile);
  if (lane < tile_size) memory.beta[lane] = beta;
  decays_between(g, memory.decays);
  __syncwarp();

  const Rows rows = key_rows(op, sequence, head);
  const TileRows k(op.k + rows.first, rows.step, tiles, first),
      r(op.r + rows.first, rows.step, tiles, first);
  uint32_t a[keys / 32][2][4], b[keys / 32][2][4];  // all loads are issued before the first product
  const auto load = [&]<bool whole>() {
#pragma unroll
    for (int i = 0; i < keys / 32; ++i)
      k.template load<whole>(a[i], 32 * i), r.template load<whole>(b[i], 32 * i);
  };
  tiles.mask(tile) == whole_tile ? load.template operator()<true>()
                                 : load.template operator()<false>();
  Accumulator kk, rk;
#pragma unroll
  for (int i = 0; i < keys / 16; ++i) {
    const auto &of_k = a[i / 2][i % 2], &of_r = b[i / 2][i % 2];
    mma(kk.c[0], of_k, of_k[0], of_k[2]), mma(kk.c[1], of_k, of_k[1], of_k[3]);
    mma(rk.c[0], of_r, of_k[0], of_k[2]), mma(rk.c[1], of_r, of_k[1], of_k[3]);
  }
  PerHeadTerms& terms = memory.terms;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // Accumulator's places
    const int p = i / 2, part = i % 2 * 2, t = lane / 4 + i % 2 * 8, s = 8 * p + lane % 4 * 2;
    const float2 of_beta = *reinterpret_cast<const float2*>(&memory.beta[s]);
    const float x = memory.decays[s + 1][t] * of_beta.x, next = memory.decays[s + 2][t] * of_beta.y;
    *reinterpret_cast<float2*>(&memory.a[t][s]) = {kk.c[p][part] * x, kk.c[p][part + 1] * next};
    terms.read.set(t, s,
                   {s <= t ? rk.c[p][part] * x : 0, s + 1 <= t ? rk.c[p][part + 1] * next : 0});
  }
  __syncwarp();
  const int column = lane % tile_size, plane = lane / tile_size;
  const Boundary boundary(tau);
  const float d = memory.decays[0][tile_size - 1];
  if (plane == 0) {
    const float out = beta * memory.decays[lane + 1][tile_size - 1];
    terms.in[lane] = memory.decays[0][lane], terms.out[lane] = out;
    terms.tiny_out[lane] = boundary.factor.times(out);
    if (lane < 8) terms.decay[lane] = d;
    if (lane == 0) terms.tiny = TinyTerms(boundary, boundary.factor.times(d));
  }
  float T[tile_size];
  invert(memory.a, column, T);
#pragma unroll
  for (int t = 0; t < tile_size; ++t) {  // a lane stores one plane of its column
    const __nv_bfloat16 upper = __float2bfloat16_rn(T[t]);
    *terms.inverse.at(plane, t, column) =
        plane == 0 ? upper : __float2bfloat16_rn(T[t] - __bfloat162float(upper));
  }
  __syncwarp();
  auto* const to = reinterpret_cast<uint4*>(&result);
  const auto* const from = reinterpret_cast<const uint4*>(&terms);
#pragma unroll
  for (int i = 0; i < int(sizeof(PerHeadTerms) / sizeof(uint4)); i += 32)
    if (i + lane < int(sizeof(PerHeadTerms) / sizeof(uint4))) to[i + lane] = from[i + lane];
}

template <int keys>
__global__ __launch_bounds__(32 * warps) void terms_kernel(GatedRule op, int all_tiles,
                                                           PerHeadTerms* all,
                                                           TileProgress progress) {
  trigger_dependent_launch();
  extern __shared__ float4 dynamic_shared[];
  WarpMemory& memory = reinterpret_cast<WarpMemory*>(dynamic_shared)[threadIdx.x / 32];
  const bool leader = threadIdx.x % 32 == 0;
  const unsigned count = unsigned(op.batch * op.heads) * all_tiles;
  unsigned which = blockIdx.x * warps + threadIdx.x / 32;
  while (which < count) {
    const uint32_t claimed = progress.ready && leader ? atomicAdd(progress.claimed, 1u) : 0;
    const TileOfHead of(op, which, all_tiles, TileOrder::by_token);
    make_terms<keys>(op, of, memory, all[of.place]);
    if (!progress.ready) return;
    __syncwarp();
    if (leader) store_release(progress.ready + of.place, 1);
    which = gridDim.x * warps + __shfl_sync(~0u, claimed, 0);
  }
}

// Blocks of a multiprocessor that leave room for a block of the pass over the states.
constexpr int beside = 2;

}  // namespace

int64_t gated_terms_bytes(const GatedRule& op) {
  int64_t one = sizeof(PerHeadTerms);
  if (op.rule == Rule::kda)
    choose<64, 96, 128, 256>(op.keys, "key channels per head",
                             [&]<int keys>() { one = sizeof(PerChannelTerms<keys>); });
  return op.batch * op.heads * tile_count(op) * one;
}
void gated_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu) {
  if (pass.progress.ready) {
    const int64_t tiles = pass.op.batch * pass.op.heads * tile_count(pass.op);
    zero_on_gpu(pass.progress.claimed, uint64_t(TileProgress::words(tiles)) * sizeof(uint32_t),
                gpu);
  }
  pass.op.rule == Rule::kda ? per_channel_terms(pass, direction, gpu) : per_head_terms(pass, gpu);
}

void per_head_terms(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const int64_t tiles = tile_count(op), count = op.batch * op.heads * tiles;
  const unsigned blocks = terms_blocks(pass, (count + warps - 1) / warps, beside, gpu);
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    if (pass.progress.ready) prefer_shared_carveout(terms_kernel<keys>);
    launch(terms_kernel<keys>, {blocks, 32 * warps, warps * sizeof(WarpMemory)}, gpu, op,
           int(tiles), static_cast<PerHeadTerms*>(pass.terms), pass.progress);
  });
}

}  // namespace deltasane::kernel::cuda
