// Attention row by row: a block has a token, up to four heads that share keys and values, and a part
// of the rows that the token sees; its warps take these in turn.
#include "kernel/attention/cuda.h"

#include <algorithm>
#include <type_traits>

#include "base/choose.h"
#include "kernel/attention/cache_rows.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4, most_together = 4;

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    append_rows(const __grid_constant__ AppendRows<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.row / width, row = i / pieces, c = i % pieces * width;
  if (row >= op.rows.rows) return;
  const int sequence = op.rows.sequence[row];
  const int64_t position = op.rows.position[sequence] + row - op.rows.first[sequence];
  float x[width];
  load_channels<width>(op.from + row * op.step + c, x);
  store_channels<width>(CacheRows<Real>(op.cache, sequence, op.row).at(position) + c, x);
}

// A lane's channels of a head: `pieces` pieces of `width` neighbours, every 32nd.
template <int width, int pieces>
struct LaneChannels {
  float x[pieces * width];

  template <class Use>  // use(number of a piece, its first channel)
  __device__ static void each(Use&& use) {
#pragma unroll
    for (int p = 0; p < pieces; ++p) use(p * width, (32 * p + int(threadIdx.x) % 32) * width);
  }
  template <class Real>
  __device__ void load(const Real* head, int size) {
    each([&](int i, int at) {
      float piece[width] = {};
      if (at < size) load_channels<width>(head + at, piece);
#pragma unroll
      for (int j = 0; j < width; ++j) x[i + j] = piece[j];
    });
  }
};

// Each block has one of `parts` parts. Its result goes to y, or, where there are several, to `memory`,
// (rows, H, parts, D + 2). A warp takes `ahead` rows of the cache at once, and the first of them before
// the kernel in front of this one has ended, unless that writes them.
template <class Real, int width, int pieces>
__global__ void __launch_bounds__(32 * warps)
    attend_rows(const __grid_constant__ Attention<Real> op, int parts, float* memory) {
  constexpr int channels = width * pieces, ahead = channels <= 8 ? 2 : 1;
  extern __shared__ float4 dynamic_shared[];
  trigger_dependent_launch();
  const int warp = threadIdx.x / 32, size = int(op.size);
  const int values = int(op.latents ? op.latents : op.size);
  const int group = int(op.heads / op.kv_heads), blocks = (group + most_together - 1) / most_together;
  const int64_t row = blockIdx.x;
  const int kv_head = int(blockIdx.y) / blocks, part = int(blockIdx.z);
  const int first = int(blockIdx.y) % blocks * most_together;  // in the group
  const int together = min(group - first, most_together);
  const int64_t head = int64_t(kv_head) * group + first;
  const int sequence = op.rows.sequence[row];
  const int64_t first_position = op.rows.position[sequence],
                position = first_position + row - op.rows.first[sequence];
  const CacheRows<Real> cache(op.cache, sequence, (op.latents ? 1 : 2) * op.kv_heads * op.size);
  const Seen seen(position, op.window, op.kept);
  const int64_t begin = seen.count * part / parts, end = seen.count * (part + 1) / parts;

  LaneChannels<width, pieces> k[ahead], v[ahead];
  const auto load = [&](int64_t i) {
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      if (i + a * warps >= end) continue;
      const Real* const key = cache.at(seen.position(i + a * warps)) + int64_t(kv_head) * size;
      k[a].load(key, size), v[a].load(op.latents ? key : key + op.kv_heads * size, values);
    }
  };
  const int64_t last_early = min(begin + warp + (ahead - 1) * warps, end - 1);
  const bool early = begin + warp < end && seen.position(last_early) < first_position;
  if (early) load(begin + warp);
  grid_dependency_synchronize();

  LaneChannels<width, pieces> q[most_together], y[most_together] = {};
  float largest[most_together], sum[most_together] = {};
#pragma unroll
  for (int h = 0; h < most_together; ++h) {
    largest[h] = -INFINITY;
    q[h].load(op.q + row * op.q_step + (head + min(h, together - 1)) * size, size);
#pragma unroll
    for (float& x : q[h].x) x *= op.scale;
  }
  for (int64_t i = begin + warp; i < end; i += ahead * warps) {
    if (!early || i > begin + warp) load(i);
#pragma unroll
    for (int h = 0; h < most_together; ++h) {
      float score[ahead], most = largest[h];
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        score[a] = 0;
#pragma unroll
        for (int c = 0; c < channels; ++c) score[a] = fmaf(q[h].x[c], k[a].x[c], score[a]);
        score[a] = i + a * warps < end ? warp_sum(score[a]) : -INFINITY;
        most = fmaxf(most, score[a]);
      }
      const float factor = most > largest[h] ? expf(largest[h] - most) : 1.0f;
      largest[h] = most, sum[h] *= factor;
      if (factor != 1)
#pragma unroll
        for (float& x : y[h].x) x *= factor;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        if (i + a * warps >= end) continue;
        const float weight = expf(score[a] - most);
        sum[h] += weight;
#pragma unroll
        for (int c = 0; c < channels; ++c) y[h].x[c] = fmaf(weight, v[a].x[c], y[h].x[c]);
      }
    }
  }

  // (warp, head, D + 2) of all warps
  float* const of_warps = reinterpret_cast<float*>(dynamic_shared);
  const int wide = values + 2;
#pragma unroll
  for (int h = 0; h < most_together; ++h) {
    float* const mine = of_warps + (warp * most_together + h) * wide;
    LaneChannels<width, pieces>::each([&](int piece, int at) {
      if (at < values)
#pragma unroll
        for (int j = 0; j < width; ++j) mine[at + j] = y[h].x[piece + j];
    });
    if (threadIdx.x % 32 == 0) mine[values] = largest[h], mine[values + 1] = sum[h];
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < together * values; i += 32 * warps) {
    const int h = i / values, c = i % values;
    float most = -INFINITY, total = 0, result = 0;
    for (int w = 0; w < warps; ++w) most = fmaxf(most, of_warps[(w * most_together + h) * wide + values]);
    for (int w = 0; w < warps && most > -INFINITY; ++w) {
      const float* const of = of_warps + (w * most_together + h) * wide;
      const float factor = expf(of[values] - most);
      total = fmaf(factor, of[values + 1], total), result = fmaf(factor, of[c], result);
    }
    if (parts == 1) {
      store_one(op.y + (row * op.heads + head + h) * values + c, result / total);
      continue;
    }
    float* const to = memory + ((row * op.heads + head + h) * parts + part) * wide;
    to[c] = result;
    if (c == 0) to[values] = most, to[values + 1] = total;
  }
}

// A block per (row, head).
template <class Real>
__global__ void __launch_bounds__(channel_threads)
    combine_parts(const float* memory, int parts, int64_t size, Real* y) {
  extern __shared__ float4 dynamic_shared[];  // of each part its factor
  float* const factor = reinterpret_cast<float*>(dynamic_shared);
  trigger_dependent_launch();
  grid_dependency_synchronize();
  const int64_t wide = size + 2;
  const float* const of = memory + blockIdx.x * parts * wide;
  const int lane = int(threadIdx.x) % 32;
  float most = -INFINITY, total = 0;  // every warp finds them
  for (int p = lane; p < parts; p += 32) most = fmaxf(most, of[p * wide + size]);
  most = warp_max(most);
  for (int p = lane; p < parts; p += 32) {
    const float mine = expf(of[p * wide + size] - most);
    total = fmaf(mine, of[p * wide + size + 1], total);
    if (threadIdx.x < 32) factor[p] = mine;
  }
  total = warp_sum(total);
  __syncthreads();
  for (int64_t c = threadIdx.x; c < size; c += channel_threads) {
    float result = 0;
#pragma unroll 16
    for (int p = 0; p < parts; ++p) result = fmaf(factor[p], of[p * wide + c], result);
    store_one(y + blockIdx.x * size + c, result / total);
  }
}

}  // namespace

float* AttentionScratch::floats(const Gpu& gpu, int64_t count) {
  if (memory_.elements() < count) {
    gpu.wait();
    memory_ = GpuTensor<float>(gpu, {count}, "attention over a long cache");
  }
  return memory_.data();
}

template <class Real>
void append_to_cache(const AppendRows<Real>& op, const Gpu& gpu) {
  if (op.rows.rows == 0) return;
  with_width(in_eights({op.row, op.step}, {op.from}), [&]<int width>() {
    launch(append_rows<width, Real>,
           {blocks_for(op.rows.rows * (op.row / width)), channel_threads}, gpu, op);
  });
}

template <class Real>
void attention_by_rows(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu) {
  if (op.rows.rows == 0) return;
  const int64_t group = op.heads / op.kv_heads;
  const int64_t blocks = op.kv_heads * ((group + most_together - 1) / most_together);
  // Enough blocks for the GPU where there are few rows; how many depends on sizes alone, so that the
  // launch can be repeated whatever the caches have become.
  const int64_t wanted = 4 * gpu.properties().multiprocessors / (op.rows.rows * blocks);
  const int parts = int(std::clamp<int64_t>(wanted, 1, 64));
  float* memory = nullptr;
  if (parts > 1)
    memory = scratch.floats(gpu, op.rows.rows * op.heads * parts * (op.values() + 2));
  const size_t shared = size_t(warps * most_together * (op.values() + 2)) * sizeof(float);
  const auto launch_with = [&]<int width, int pieces>() {
    prefer_shared_carveout(attend_rows<Real, width, pieces>);
    launch_dependent(attend_rows<Real, width, pieces>,
                     {dim3(unsigned(op.rows.rows), unsigned(blocks), unsigned(parts)), 32 * warps,
                      shared},
                     gpu, op, parts, memory);
  };
  const auto pieces_of = [&](int64_t width) { return (op.size + 32 * width - 1) / (32 * width); };
  if (in_eights({op.size, op.values(), op.q_step}, {op.q})) {
    choose<1, 2, 3>(pieces_of(octet), "eights of channels of a lane",
                    [&]<int pieces>() { launch_with.template operator()<octet, pieces>(); });
  } else {
    constexpr int64_t most = most_attention_channels / 32;
    int64_t pieces = 1;
    while (pieces < pieces_of(1)) pieces = pieces < 8 ? 2 * pieces : most;
    choose<1, 2, 4, 8, most>(pieces, "channels of a lane",
                             [&]<int held>() { launch_with.template operator()<1, held>(); });
  }
  if (parts == 1) return;
  prefer_shared_carveout(combine_parts<Real>);
  launch_dependent(combine_parts<Real>,
                   {unsigned(op.rows.rows * op.heads), channel_threads,
                    size_t(parts) * sizeof(float)},
                   gpu, static_cast<const float*>(memory), parts, op.values(), op.y);
}

template <class Real>
void attention(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu) {
  require(op.kv_heads > 0 && op.heads % op.kv_heads == 0,
          "attention: expected heads that share keys and values");
  if (op.size > most_attention_channels)
    fail(Fault::device, "attention on a GPU: expected heads of up to ", most_attention_channels,
         " channels, found ", op.size, "; use the device cpu");
  constexpr int64_t few = 8;  // tokens of a sequence that are read row by row
  if constexpr (std::is_same_v<Real, bf16>)
    if (op.rows.longest > few && !op.latents && has_attention_tiles(op.size))
      return attention_by_tiles(op, gpu);
  attention_by_rows(op, scratch, gpu);
}

template void append_to_cache(const AppendRows<float>&, const Gpu&);
template void append_to_cache(const AppendRows<bf16>&, const Gpu&);
template void attention_by_rows(const Attention<float>&, AttentionScratch&, const Gpu&);
template void attention_by_rows(const Attention<bf16>&, AttentionScratch&, const Gpu&);
template void attention(const Attention<float>&, AttentionScratch&, const Gpu&);
template void attention(const Attention<bf16>&, AttentionScratch&, const Gpu&);

}  // namespace deltasane::kernel::cuda
