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
#include "kernel/delta_rule/gated_cuda/input_backward_products.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"
#include "kernel/cuda/warp_reduce.cuh"
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

// What a thread has of its channel: k and r of the tile, and their gradients, summed over heads.
struct ChannelVectors {
  float k[tile_size], r[tile_size], dk[tile_size] = {}, dr[tile_size] = {};
};

// One head's part in a channel, given its products with the state. out: the sums over all channels
// that are wanted, of dbeta and, with one decay for all channels, of dG.
template <Decay decay, int keys>
struct ChannelBackward {
  const InputMemory<decay, keys>& memory;
  ChannelVectors& x;
  float (&w)[tile_size];  // decays of the channel; not used where one is for all
  float (&out)[32];

  __device__ float in(int t, float running) const {
    return decay == Decay::per_head ? memory.decays[0][t] : running;
  }
  // Gradient of g, summed over the tokens that follow, in dG.
  __device__ void run(float (&dq)[tile_size], float (&row)[tile_size],
                      const float (&eh)[tile_size], float states, float (&dG)[tile_size]) {
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
      float written = beta * x.k[s], d = 1;
      const float at_end =
          eh[s] * (decay == Decay::per_head ? memory.decays[s + 1][tile_size - 1] : up_to);
      last = fmaf(written, at_end, last);
      float column = at_end;
#pragma unroll
      for (int t = s + 1; t < tile_size; ++t) {
        const float2 pair = memory.pair[s][t];  // X, Y; with one decay for all, times d_ts
        if constexpr (decay == Decay::per_channel) d *= w[t], written *= w[t];
        dq[t] = fmaf(pair.y, written, dq[t]), row[t] = fmaf(pair.x, written, row[t]);
        column = fmaf(d, fmaf(pair.x, x.k[t], pair.y * x.r[t]), column);
      }
      dG[s] = -beta * x.k[s] * column;
      column = fmaf(memory.pair[s][s].y, x.r[s], column);
      out[s] = x.k[s] * column;
      x.dk[s] = fmaf(beta, column, x.dk[s]);
      if constexpr (decay == Decay::per_channel) up_to *= w[s];
    }
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      dG[t] += fmaf(x.r[t], dq[t], x.k[t] * row[t]);
      x.dr[t] += fmaf(memory.pair[t][t].y * memory.beta[t], x.k[t], dq[t]);
      x.dk[t] += row[t];
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
    const int group = int(op.heads / op.key_heads), first = tiles.first(tile);
    if (tile >= tiles.count()) {
      for (int h = 0; h < group; ++h) store_tau(key_head * group + h);
      return;
    }
    const int channel = threadIdx.x;
    const Rows rows = key_rows(op, sequence, key_head * group);
    ChannelVectors x;
#pragma unroll
    for (int t = 0; t < tile_size; ++t) {
      const int64_t at = rows.first + (first + t) * rows.step + channel;
      const bool present = tiles.present(first + t);
      x.k[t] = present ? to_float(op.k[at]) : 0, x.r[t] = present ? to_float(op.r[at]) : 0;
    }
    SliceLoader<decay, keys> loader{pass, memory, tiles, sequence, key_head * group, tile,
                                    all_tiles};
    loader.begin();
    for (int h = 0; h < group; ++h) {
      const int64_t head = key_head * group + h;
      load_scalars(head);
      store_tau(head);
      TileProducts<decay, keys> products;
      const int slices = int(op.values) / slice_rows;
      for (int i = 0; i < slices; ++i) products.add(loader.next());
      products.store_pairs(memory);
      float w[tile_size], dq[tile_size], row[tile_size], eh[tile_size], dG[tile_size], out[32] = {};
      const Rows decays = head_rows(op, sequence, head, keys);
      if constexpr (decay == Decay::per_channel) {
#pragma unroll
        for (int t = 0; t < tile_size; ++t)
          w[t] = tiles.present(first + t)
                     ? __expf(op.g[decays.first + (first + t) * decays.step + channel])
                     : 1;
      }
      products.by_channel(memory, products.read, dq);
      products.by_channel(memory, products.erased, row);
      products.by_channel(memory, products.written, eh);
      const float states = products.states_of_channel();
      __syncthreads();  // the pairs and scalars are there
      ChannelBackward<decay, keys>{memory, x, w, out}.run(dq, row, eh, states, dG);
      if constexpr (decay == Decay::per_channel) {
        float sum = 0;
#pragma unroll
        for (int t = tile_size - 1; t >= 0; --t) {
          sum += dG[t];
          if (tiles.present(first + t))
            pass.gradient.dg[decays.first + (first + t) * decays.step + channel] = sum;
        }
      } else {
#pragma unroll
        for (int t = 0; t < tile_size; ++t) out[tile_size + t] = dG[t];
      }
      store_sums(sum_channels(out, memory.sums), head);
    }
#pragma unroll
    for (int t = 0; t < tile_size; ++t)
      if (tiles.present(first + t)) {
        const int64_t at = rows.first + (first + t) * rows.step + channel;
        store_one(pass.gradient.dr + at, x.dr[t]), store_one(pass.gradient.dk + at, x.dk[t]);
      }
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
constexpr int resident = 256 / keys;

template <Decay decay, int keys>
__global__ __launch_bounds__(keys, resident<keys>) void input_kernel(const __grid_constant__ GatedPass pass,
                                                      int all_tiles) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<InputMemory<decay, keys>*>(dynamic_shared);
  const int64_t of_key_head = blockIdx.x / all_tiles;
  const int64_t sequence = of_key_head / pass.op.key_heads;
  InputBlock<decay, keys>{pass,     memory,
                          Tiles(pass.op, sequence), sequence, int(blockIdx.x % all_tiles), all_tiles}
      .run(of_key_head % pass.op.key_heads);
}

template <Decay decay, int keys>
void run(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  const size_t shared = sizeof(InputMemory<decay, keys>);
  expect_shared(shared, gpu);
  const int64_t tiles = tile_count(op);
  launch(input_kernel<decay, keys>,
         {unsigned(op.batch * op.key_heads * tiles), unsigned(keys), shared}, gpu, pass, int(tiles));
}

}  // namespace

void gated_input_backward(const GatedPass& pass, const Gpu& gpu) {
  choose<64, 96, 128, 256>(pass.op.keys, "key channels per head", [&]<int keys>() {
    pass.op.rule == Rule::kda ? run<Decay::per_channel, keys>(pass, gpu)
                              : run<Decay::per_head, keys>(pass, gpu);
  });
}

}  // namespace deltasane::kernel::cuda
