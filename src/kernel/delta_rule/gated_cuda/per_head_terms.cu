// The terms of a tile where one decay is for all channels of a head: a warp per tile.
#include "base/choose.h"
#include "kernel/delta_rule/gated_cuda/terms.cuh"
#include "kernel/delta_rule/gated_cuda/terms_passes.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4;

struct WarpMemory {
  float decays[tile_size + 1][tile_size + 1];  // see decays_between
  float beta[tile_size];
  alignas(16) float a[tile_size][tile_size + 4];  // L diag(beta)
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
  __device__ void load(uint32_t (&x)[2][4], int channel) const {  // operands A of 32 channels
    const uint4 upper = eight(row + channel, present),
                lower = eight(below + channel, present_below);
    x[0][0] = upper.x, x[0][1] = lower.x, x[0][2] = upper.y, x[0][3] = lower.y;
    x[1][0] = upper.z, x[1][1] = lower.z, x[1][2] = upper.w, x[1][3] = lower.w;
  }
};

template <int keys>
__global__ __launch_bounds__(32 * warps) void terms_kernel(GatedRule op, int all_tiles,
                                                           PerHeadTerms* all) {
  extern __shared__ float4 dynamic_shared[];
  WarpMemory& memory = reinterpret_cast<WarpMemory*>(dynamic_shared)[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  const int64_t which = int64_t(blockIdx.x) * warps + threadIdx.x / 32;
  if (which >= op.batch * op.heads * all_tiles) return;
  const TileOfHead of(op, which, all_tiles);
  const int tile = of.tile;
  const int64_t sequence = of.sequence, head = of.head;
  const Tiles tiles(op, sequence);
  if (tile >= tiles.count()) return;
  const int first = tiles.first(tile);
  PerHeadTerms& terms = all[of.place];

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
#pragma unroll
  for (int i = 0; i < keys / 32; ++i) k.load(a[i], 32 * i), r.load(b[i], 32 * i);
  Accumulator kk, rk;
#pragma unroll
  for (int i = 0; i < keys / 16; ++i) {
    const auto &of_k = a[i / 2][i % 2], &of_r = b[i / 2][i % 2];
    mma(kk.c[0], of_k, of_k[0], of_k[2]), mma(kk.c[1], of_k, of_k[1], of_k[3]);
    mma(rk.c[0], of_r, of_k[0], of_k[2]), mma(rk.c[1], of_r, of_k[1], of_k[3]);
  }
  kk.each([&](int t, int s, float x, float next) {
    memory.a[t][s] = x * memory.decays[s + 1][t] * memory.beta[s];
    memory.a[t][s + 1] = next * memory.decays[s + 2][t] * memory.beta[s + 1];
  });
  rk.each([&](int t, int s, float x, float next) {
    const auto of = [&](int column, float value) {
      return column <= t ? value * memory.decays[column + 1][t] * memory.beta[column] : 0.0f;
    };
    terms.read.set(t, s, {of(s, x), of(s + 1, next)});
  });
  __syncwarp();
  if (lane >= tile_size) return;
  terms.in[lane] = memory.decays[0][lane];
  terms.out[lane] = beta * memory.decays[lane + 1][tile_size - 1];
  if (lane < 8) terms.decay[lane] = memory.decays[0][tile_size - 1];
  const Boundary boundary(tau);
  const float d = memory.decays[0][tile_size - 1];
  terms.tiny_out[lane] = boundary.factor.times(beta * memory.decays[lane + 1][tile_size - 1]);
  if (lane == 0) terms.tiny = TinyTerms(boundary, boundary.factor.times(d));
  float T[tile_size];
  invert(memory.a, lane, T);
#pragma unroll
  for (int t = 0; t < tile_size; ++t) terms.inverse.set(t, lane, T[t]);
}

}  // namespace

int64_t gated_terms_bytes(const GatedRule& op) {
  int64_t one = sizeof(PerHeadTerms);
  if (op.rule == Rule::kda)
    choose<64, 96, 128, 256>(op.keys, "key channels per head",
                             [&]<int keys>() { one = sizeof(PerChannelTerms<keys>); });
  return op.batch * op.heads * tile_count(op) * one;
}
void gated_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu) {
  pass.op.rule == Rule::kda ? per_channel_terms(pass, direction, gpu) : per_head_terms(pass, gpu);
}

void per_head_terms(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const int64_t tiles = tile_count(op), count = op.batch * op.heads * tiles;
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    launch(terms_kernel<keys>,
           {unsigned((count + warps - 1) / warps), 32 * warps, warps * sizeof(WarpMemory)}, gpu, op,
           int(tiles), static_cast<PerHeadTerms*>(pass.terms));
  });
}

}  // namespace deltasane::kernel::cuda
