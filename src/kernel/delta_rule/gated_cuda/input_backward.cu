// The gradients of the inputs of a tile, all tiles at once: a block per key head and tile, which goes
// over the heads that share the key head and adds up their gradients.
//
// In the letters of terms.cuh, with H the gradient of the state after the tile:
//
//     X = -dV E'      Y = dY E'                                    (token, token)
//     dr_t  = d_t (dY S0)_t + sum_{s <= t} beta_s Y_ts d_ts k_s
//     row_t = -d_t (dV S0)_t + sum_{s < t} beta_s X_ts d_ts k_s
//     col_s = (d / d_s) (E H)_s + sum_{t > s} d_ts (X_ts k_t + Y_ts r_t) + Y_ss r_s
//     dk = row + beta col      dbeta = k col
//
// g_t is in every decay over token t, so that its gradient is the sum over t' >= t of
//
//     dG_t' = r_t' dr_t' + k_t' row_t' - beta_t' k_t' col_t'       (without the terms of one token)
//
// where dG of the last one has the whole tile's decay too, sum_s beta_s k_s (d / d_s) (E H)_s + d sum
// H S0. The products with the state are on the tensor cores, 32 rows of the state at a time; the
// rest is done by a thread for each key channel.
#include "base/choose.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/gated_cuda/input_backward_products.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// Sums over all channels, 32 of them: of every thread's x, in order. Lane l of the first warp gets
// sum l; the other threads get nothing.
template <int warps>
__device__ float sum_channels(float (&x)[32], float (&memory)[warps][32]) {
  const int lane = threadIdx.x % 32;
  memory[threadIdx.x / 32][lane] = reduce_scatter<32, 16>(x);
  __syncthreads();
  float sum = 0;
  if (threadIdx.x < 32)
#pragma unroll
    for (int w = 0; w < warps; ++w) sum += memory[w][lane];
  return sum;
}

// k, r and g of a thread's channel: loaded before the products with the state, and unpacked after.
template <Decay decay, int keys>
struct ChannelInputs {
  uint32_t k_and_r[tile_size];
  float g[decay == Decay::per_channel ? tile_size : 1];

  __device__ ChannelInputs(const GatedRule& op, int64_t sequence, int64_t head, const Tiles& tiles,
                           int tile) {
    const uint32_t present = tiles.mask(tile);
    const int first = tiles.first(tile);
    const Rows rows = key_rows(op, sequence, head), decays = head_rows(op, sequence, head, keys);
    const int64_t at = rows.first + first * rows.step + threadIdx.x,
                  g_at = decays.first + first * decays.step + threadIdx.x;
    const int step = int(rows.step), g_step = int(decays.step);
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      const bool there = present >> t & 1;
      k_and_r[t] =
          there ? (op.k + at)[t * step].bits | uint32_t((op.r + at)[t * step].bits) << 16 : 0;
      if constexpr (decay == Decay::per_channel) g[t] = there ? (op.g + g_at)[t * g_step] : 0;
    }
  }
  __device__ void unpack(float (&k)[tile_size], float (&r)[tile_size],
                         float (&w)[tile_size]) const {
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      k[t] = __uint_as_float(k_and_r[t] << 16), r[t] = __uint_as_float(k_and_r[t] & 0xffff0000u);
      if constexpr (decay == Decay::per_channel) w[t] = decay_of(g[t]);
    }
  }
};

// One head's part in a channel, given its products with the state.
template <Decay decay, int keys>
struct ChannelBackward {
  const InputMemory<decay, keys>& memory;
  float (&k)[tile_size], (&r)[tile_size];
  float (&w)[tile_size];       // decays of the channel; not used where one is for all
  float (&eh)[tile_size][40];  // E H, in this warp's columns

  __device__ float in(int t, float running) const {
    return decay == Decay::per_head ? memory.decays[0][t] : running;
  }
  // dq and row: the products with the state, then dr and row. dk: without row. dbeta: this channel's
  // part. dG: without the sum over the tokens that follow. states: the sum of H S0.
  __device__ void run(float (&dq)[tile_size], float (&row)[tile_size], float (&dk)[tile_size],
                      float (&dbeta)[tile_size], float (&dG)[tile_size], float states) const {
    float running = 1;
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      if constexpr (decay == Decay::per_channel) running *= w[t];
      dq[t] *= in(t, running), row[t] *= -in(t, running);
    }
    const float whole = decay == Decay::per_head ? memory.decays[0][tile_size - 1] : running;
    float last = whole * states, up_to = 1;  // up_to: the decay after token s
#pragma unroll
    for (int s = tile_size - 1; s >= 0; --s) {
      const float beta = memory.beta[s];
      float written = beta * k[s], d = 1;
      const float at_end = eh[s][threadIdx.x % 32] *
                           (decay == Decay::per_head ? memory.decays[s + 1][tile_size - 1] : up_to);
      last = fmaf(written, at_end, last);
      float column = at_end;
#pragma unroll
      for (int t = s + 1; t < tile_size; ++t) {
        const float2 pair = memory.pair[s][t];  // X, Y; with one decay for all, times d_ts
        if constexpr (decay == Decay::per_channel) d *= w[t], written *= w[t];
        dq[t] = fmaf(pair.y, written, dq[t]), row[t] = fmaf(pair.x, written, row[t]);
        column = fmaf(d, fmaf(pair.x, k[t], pair.y * r[t]), column);
      }
      dG[s] = -beta * k[s] * column;
      column = fmaf(memory.pair[s][s].y, r[s], column);
      dbeta[s] = k[s] * column;
      dk[s] = beta * column;
      if constexpr (decay == Decay::per_channel) up_to *= w[s];
    }
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      dG[t] += fmaf(r[t], dq[t], k[t] * row[t]);
      dq[t] = fmaf(memory.pair[t][t].y * memory.beta[t], k[t], dq[t]);
      dk[t] += row[t];
    }
    dG[tile_size - 1] += last;
  }
};

template <Decay decay, int keys>
struct InputBlock {
  const GatedPass& pass;
  InputMemory<decay, keys>& memory;
  Tiles tiles;
  int64_t sequence;
  int tile;
  int64_t all_tiles;

  // beta, and the decays between tokens where one is for all channels.
  __device__ void load_scalars(int64_t head) {
    const GatedRule& op = pass.op;
    if (threadIdx.x >= 32) return;
    const int lane = threadIdx.x, token = tiles.first(tile) + lane;
    const bool present = lane < tile_size && tiles.present(token);
    const int64_t at = (sequence * op.time + token) * op.heads + head;
    if (lane < tile_size) memory.beta[lane] = present ? op.beta[at] : 0;
    if constexpr (decay == Decay::per_head)
      decays_between(present && op.g ? op.g[at] : 0.0f, memory.decays);
  }
  __device__ void store_tau(int64_t head) const {
    const GatedRule& op = pass.op;
    const int64_t chunks = chunk_count(op);
    if (!op.tau || tile >= chunks || threadIdx.x != 0) return;
    const int64_t at = (sequence * chunks + tile) * op.heads + head;
    const int parts = int(op.values) / row_group;
    float sum = 0;
    if (tiles.ends_chunk(tile))
      for (int i = 0; i < parts; ++i) sum += pass.dtau_parts[at * parts + i];
    pass.gradient.dtau[at] = sum;
  }

  __device__ void run(int64_t key_head) {
    const GatedRule& op = pass.op;
    const int group = int(op.heads / op.key_heads);
    if (tile >= tiles.count()) {
      for (int h = 0; h < group; ++h) store_tau(key_head * group + h);
      return;
    }
    SliceLoader<decay, keys> loader{pass, memory, tiles,    sequence, key_head * group,
                                    tile, group,  all_tiles};
    loader.begin();
    for (int h = 0; h < group; ++h) {
      const int64_t head = key_head * group + h;
      load_scalars(head);
      store_tau(head);
      const ChannelInputs<decay, keys> inputs(op, sequence, head, tiles, tile);
      TileProducts<decay, keys> products;
      for (int row = 0; row < op.values; row += slice_rows) products.add(loader.next());
      products.store_pairs(memory);
      float dq[tile_size], row[tile_size];
      products.by_channel(memory, products.read, dq);
      products.by_channel(memory, products.erased, row);
      auto& eh = products.by_channel(memory, products.written);
      const float states = products.states_of_channel();
      __syncthreads();  // the pairs are there
      channel_gradients(inputs, key_head, h, dq, row, eh, states);
    }
  }
  // Of the h-th head of those that share the keys.
  __device__ void channel_gradients(const ChannelInputs<decay, keys>& inputs, int64_t key_head,
                                    int h, float (&dq)[tile_size], float (&row)[tile_size],
                                    float (&eh)[tile_size][40], float states) {
    const GatedRule& op = pass.op;
    const int group = int(op.heads / op.key_heads), first = tiles.first(tile);
    const int channel = threadIdx.x;
    const int64_t head = key_head * group + h;
    const uint32_t present = tiles.mask(tile);
    const Rows rows = key_rows(op, sequence, head), decays = head_rows(op, sequence, head, keys);
    const int64_t at = rows.first + first * rows.step + channel,
                  g_at = decays.first + first * decays.step + channel;
    const int step = int(rows.step), g_step = int(decays.step);
    float k[tile_size], r[tile_size], w[tile_size], dk[tile_size], dG[tile_size], out[32] = {};
    inputs.unpack(k, r, w);
    float dbeta[tile_size];
    ChannelBackward<decay, keys>{memory, k, r, w, eh}.run(dq, row, dk, dbeta, dG, states);
    if constexpr (decay == Decay::per_channel) {
      float sum = 0;
#pragma unroll
      for (int t = tile_size - 1; t >= 0; --t) {
        sum += dG[t];
        if (present >> t & 1) (pass.gradient.dg + g_at)[t * g_step] = sum;
      }
    }
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      if (h > 0) dq[t] += memory.dr[t][channel], dk[t] += memory.dk[t][channel];
      if (h + 1 < group) {
        memory.dr[t][channel] = dq[t], memory.dk[t][channel] = dk[t];
      } else if (present >> t & 1) {
        store_one(pass.gradient.dr + at + t * step, dq[t]);
        store_one(pass.gradient.dk + at + t * step, dk[t]);
      }
      out[t] = dbeta[t];
      if (decay == Decay::per_head) out[tile_size + t] = dG[t];
    }
    store_sums(sum_channels(out, memory.sums), head);
  }
  // Lane l of the first warp has dbeta, and lane 16 + l dG, of token l.
  __device__ void store_sums(float sum, int64_t head) const {
    if (threadIdx.x >= 32) return;
    const GatedRule& op = pass.op;
    const int lane = threadIdx.x, token = tiles.first(tile) + lane % tile_size;
    float following = sum;
#pragma unroll
    for (int away = 1; away < tile_size; away *= 2) {
      const float other = __shfl_down_sync(~0u, following, away);
      if (lane + away < 32) following += other;
    }
    if (!tiles.present(token)) return;
    const int64_t at = (sequence * op.time + token) * op.heads + head;
    if (lane < tile_size)
      pass.gradient.dbeta[at] = sum;
    else if (decay == Decay::per_head && pass.gradient.dg)
      pass.gradient.dg[at] = following;
  }
};

// Blocks that a multiprocessor has registers for.
template <int keys>
constexpr int resident = keys <= 128 ? 384 / keys : 1;

template <Decay decay, int keys>
__global__ __launch_bounds__(keys, resident<keys>) void input_kernel(
    const __grid_constant__ GatedPass pass, int all_tiles) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<InputMemory<decay, keys>*>(dynamic_shared);
  const int64_t of_key_head = blockIdx.x / all_tiles;
  const int64_t sequence = of_key_head / pass.op.key_heads;
  InputBlock<decay, keys>{
      pass, memory, Tiles(pass.op, sequence), sequence, int(blockIdx.x % all_tiles), all_tiles}
      .run(of_key_head % pass.op.key_heads);
}

template <Decay decay, int keys>
void run(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const size_t shared = sizeof(InputMemory<decay, keys>);
  expect_shared(shared, gpu);
  const int64_t tiles = tile_count(op);
  launch(input_kernel<decay, keys>,
         {unsigned(op.batch * op.key_heads * tiles), unsigned(keys), shared}, gpu, pass,
         int(tiles));
}

}  // namespace

void gated_input_backward(const GatedPass& pass, const Gpu& gpu) {
  choose<64, 96, 128, 256>(pass.op.keys, "key channels per head", [&]<int keys>() {
    pass.op.rule == Rule::kda ? run<Decay::per_channel, keys>(pass, gpu)
                              : run<Decay::per_head, keys>(pass, gpu);
  });
}

}  // namespace deltasane::kernel::cuda
