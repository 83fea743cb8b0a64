// Attention row by row: a block has a token, up to four heads that share keys and values, and a part
// of the rows that the token sees. A warp has one or two of the heads, and takes several rows at once, in
// turn.
#include <algorithm>
#include <type_traits>

#include "base/choose.h"
#include "kernel/attention/cache_rows.cuh"
#include "kernel/attention/cuda.h"
#include "kernel/cuda/channel_width.cuh"
#include "kernel/cuda/warp_reduce.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 8, most_together = 4, of_warp = 2, most_parts = 64;  // of_warp: heads

// Results of parts of the rows that a token sees: weighted sums of values, and beside them the largest score
// and the sum of weights.
struct PartResults {
  float* values = nullptr;  // (rows, H, parts, values)
  float2* sums = nullptr;   // (rows, H, parts): largest, sum
};

// A lane's channels of a head: `pieces` pieces of `width` neighbours, every 32nd.
template <int width, int pieces, class Use>  // use(number of a piece, its first channel)
__device__ void each_piece(Use&& use) {
#pragma unroll
  for (int p = 0; p < pieces; ++p) use(p, (32 * p + int(threadIdx.x) % 32) * width);
}
// As they are in memory, zeros beyond a head.
template <class Real, int width, int pieces>
struct LaneChannels {
  using Piece = std::conditional_t<width == octet, Packed<Real>, Real>;
  Piece raw[pieces] = {};

  __device__ void load(const Real* head, int size) {
    each_piece<width, pieces>([&](int p, int at) {
      if (at < size) {
        if constexpr (width == octet)
          raw[p] = Piece(head + at);
        else
          raw[p] = head[at];
      }
    });
  }
  __device__ void unpack(float (&x)[width * pieces]) const {
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      float piece[width];
      if constexpr (width == octet)
        raw[p].unpack(piece);
      else
        piece[0] = to_float(raw[p]);
#pragma unroll
      for (int j = 0; j < width; ++j) x[p * width + j] = piece[j];
    }
  }
};

// The softmax of a warp's scores so far: of each turn's scores, (head, row), a lane has one.
template <int ahead>
class RunningSoftmax {
 public:
  static constexpr int scores = of_warp * ahead, lanes = 32 / scores;  // lanes that have the same

  __device__ static int own_row() { return int(threadIdx.x) % 32 / lanes % ahead; }

  // parts: a lane's parts of all scores. present: of the lane's row; the first row always is.
  __device__ void add(float (&parts)[scores], bool present) {
    float score = reduce_scatter<scores, 16>(parts);
#pragma unroll
    for (int far = lanes / 2; far > 0; far /= 2) score += __shfl_xor_sync(~0u, score, far);
    if (!present) score = -INFINITY;
    float most = fmaxf(largest_, score);
    over_rows([&](int far) { most = fmaxf(most, __shfl_xor_sync(~0u, most, far)); });
    weight_ = expf(score - most), factor_ = expf(largest_ - most), largest_ = most;
    float turn = weight_;
    over_rows([&](int far) { turn += __shfl_xor_sync(~0u, turn, far); });
    sum_ = fmaf(sum_, factor_, turn);
  }
  // Of the last turn: of a row, and of the sums before.
  __device__ float weight(int head, int row) const {
    return __shfl_sync(~0u, weight_, (head * ahead + row) * lanes);
  }
  __device__ float factor(int head) const {
    return __shfl_sync(~0u, factor_, head * ahead * lanes);
  }
  // Of all turns.
  __device__ float largest(int head) const {
    return __shfl_sync(~0u, largest_, head * ahead * lanes);
  }
  __device__ float sum(int head) const { return __shfl_sync(~0u, sum_, head * ahead * lanes); }

 private:
  template <class Use>
  __device__ static void over_rows(Use&& use) {
#pragma unroll
    for (int far = lanes; far < lanes * ahead; far *= 2) use(far);
  }
  float largest_ = -INFINITY, sum_ = 0, weight_ = 0, factor_ = 0;
};

template <class Real, int channels>
constexpr int rows_ahead = channels * sizeof(Real) <= 16   ? 4
                           : channels * sizeof(Real) <= 32 ? 2
                                                           : 1;

// Of a block, in shared memory: of each warp's heads the largest score and the sum of weights.
struct alignas(16) SharedSums {
  float largest[warps][of_warp], sum[warps][of_warp];
};

// Each block has one of `parts` parts. Its result goes to y, or, where there are several, to `results`.
// The first rows are loaded before the kernel in front of this one has ended, but for those that it writes.
template <class Real, int width, int pieces>
__global__ void __launch_bounds__(32 * warps)
    attend_rows(const __grid_constant__ Attention<Real> op, int parts, PartResults results) {
  constexpr int channels = width * pieces, ahead = rows_ahead<Real, channels>;
  extern __shared__ float4 dynamic_shared[];
  auto& shared = *reinterpret_cast<SharedSums*>(dynamic_shared);
  float* const of_warps =
      reinterpret_cast<float*>(&shared + 1);  // (warps, heads of a warp, values)
  trigger_dependent_launch();
  const int warp = int(threadIdx.x) / 32, size = int(op.size);
  const int values = int(op.latents ? op.latents : op.size);
  const int group = int(op.heads) / int(op.kv_heads),
            blocks = (group + most_together - 1) / most_together;
  const int64_t row = blockIdx.x;
  const int kv_head = int(blockIdx.y) / blocks, part = int(blockIdx.z);
  const int first = int(blockIdx.y) % blocks * most_together;  // in the group
  const int together = min(group - first, most_together);
  const int turns = together > of_warp ? warps / 2 : warps;  // warps that have the same heads
  const int own = warp / turns * of_warp;  // the warp's first head of the block's
  const int turn = warp % turns;
  const int64_t head = int64_t(kv_head) * group + first;
  const int sequence = op.rows.sequence[row];
  const int64_t first_position = op.rows.position[sequence],
                position = first_position + row - op.rows.first[sequence];
  const CacheRows<Real> cache(op.cache, sequence, (op.latents ? 1 : 2) * op.kv_heads * op.size);
  const Seen seen(position, op.window, op.kept);
  const uint32_t count = uint32_t(seen.count),
                 of_part = (count + uint32_t(parts) - 1) / uint32_t(parts);
  const uint32_t begin = uint32_t(part) * of_part + uint32_t(turn),
                 end = min(count, uint32_t(part + 1) * of_part), step = uint32_t(turns);

  using Row = LaneChannels<Real, width, pieces>;
  Row k[ahead], v[ahead], q_row[of_warp];
  const auto load = [&](uint32_t i, auto&& wanted) {
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int64_t at = i + a * step < end ? seen.position(i + a * step) : -1;
      if (at < 0 || !wanted(at)) continue;
      const Real* const key = cache.at(at) + kv_head * size;
      k[a].load(key, size), v[a].load(op.latents ? key : key + op.kv_heads * size, values);
    }
  };
  load(begin, [&](int64_t at) { return at < first_position; });
  grid_dependency_synchronize();
#pragma unroll
  for (int h = 0; h < of_warp; ++h)
    q_row[h].load(op.q + row * op.q_step + (head + min(own + h, together - 1)) * size, size);
  load(begin, [&](int64_t at) { return at >= first_position; });

  float q[of_warp][channels], y[of_warp][channels] = {};
#pragma unroll
  for (int h = 0; h < of_warp; ++h) {
    q_row[h].unpack(q[h]);
#pragma unroll
    for (float& x : q[h]) x *= op.scale;
  }
  using Softmax = RunningSoftmax<ahead>;
  Softmax softmax;
#pragma unroll 1
  for (uint32_t i = begin; i < end; i += ahead * step) {
    if (i > begin) load(i, [](int64_t) { return true; });
    float scores[Softmax::scores] = {};
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      float key[channels];
      k[a].unpack(key);
#pragma unroll
      for (int h = 0; h < of_warp; ++h)
#pragma unroll
        for (int c = 0; c < channels; ++c)
          scores[h * ahead + a] = fmaf(q[h][c], key[c], scores[h * ahead + a]);
    }
    softmax.add(scores, i + uint32_t(Softmax::own_row()) * step < end);
#pragma unroll
    for (int h = 0; h < of_warp; ++h) {
      const float factor = softmax.factor(h);
#pragma unroll
      for (float& x : y[h]) x *= factor;
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      float value[channels];
      v[a].unpack(value);
#pragma unroll
      for (int h = 0; h < of_warp; ++h) {
        const float weight = softmax.weight(h, a);
#pragma unroll
        for (int c = 0; c < channels; ++c) y[h][c] = fmaf(weight, value[c], y[h][c]);
      }
    }
  }

  float largest[of_warp];
#pragma unroll
  for (int h = 0; h < of_warp; ++h) {
    largest[h] = softmax.largest(h);
    if (threadIdx.x % 32 == 0) shared.largest[warp][h] = largest[h];
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < of_warp; ++h) {
    float most = -INFINITY;  // of all warps that have the head
    for (int w = 0; w < turns; ++w) most = fmaxf(most, shared.largest[warp - turn + w][h]);
    // A warp may have no rows.
    const float factor = largest[h] == -INFINITY ? 0.0f : expf(largest[h] - most);
    const float sum = factor * softmax.sum(h);
    if (threadIdx.x % 32 == 0) shared.sum[warp][h] = sum;
    each_piece<width, pieces>([&](int p, int at) {
      float piece[width];
#pragma unroll
      for (int j = 0; j < width; ++j) piece[j] = factor * y[h][p * width + j];
      if (at < values) store_channels<width>(of_warps + (warp * of_warp + h) * values + at, piece);
    });
    if (parts > 1 && turn == 0 && threadIdx.x % 32 == 0 && own + h < together)
      results.sums[(row * op.heads + head + own + h) * parts + part].x = most;
  }
  __syncthreads();
  const auto total = [&](int h) {
    float all = 0;
    for (int w = 0; w < turns; ++w) all += shared.sum[h / of_warp * turns + w][h % of_warp];
    return all;
  };
  for (int i = int(threadIdx.x); i < together * values; i += 32 * warps) {
    const int h = i / values, c = i - h * values;
    float sum = 0;
    for (int w = 0; w < turns; ++w)
      sum += of_warps[((h / of_warp * turns + w) * of_warp + h % of_warp) * values + c];
    if (parts > 1)
      results.values[((row * op.heads + head + h) * parts + part) * values + c] = sum;
    else
      store_one(op.y + (row * op.heads + head + h) * values + c, sum / total(h));
  }
  if (parts > 1 && int(threadIdx.x) < together)
    results.sums[(row * op.heads + head + int(threadIdx.x)) * parts + part].y =
        total(int(threadIdx.x));
}

// A block has 64 channels of a (row, head), a quarter of it every fourth part, loaded all at once.
constexpr int combined_channels = 64, combined_together = channel_threads / combined_channels;

template <class Real>
__global__ void __launch_bounds__(channel_threads)
    combine_parts(PartResults results, int parts, int values, Real* y) {
  constexpr int turns = most_parts / combined_together, of_lane = most_parts / 32;
  extern __shared__ float4 dynamic_shared[];
  float* const quarters = reinterpret_cast<float*>(dynamic_shared);  // (quarters, channels)
  trigger_dependent_launch();
  const int lane = int(threadIdx.x) % 32, quarter = int(threadIdx.x) / combined_channels,
            own = int(threadIdx.x) % combined_channels;
  const int c = int(blockIdx.y) * combined_channels + own;
  const float* const of = results.values + int64_t(blockIdx.x) * parts * values;
  const float2* const sums = results.sums + int64_t(blockIdx.x) * parts;
  grid_dependency_synchronize();
  float x[turns];
  float2 sum[of_lane];
#pragma unroll
  for (int i = 0; i < of_lane; ++i)
    sum[i] = i * 32 + lane < parts ? sums[i * 32 + lane] : make_float2(-INFINITY, 0);
#pragma unroll
  for (int turn = 0; turn < turns; ++turn) {
    const int part = turn * combined_together + quarter;
    x[turn] = part < parts && c < values ? of[part * values + c] : 0.0f;
  }
  float most = -INFINITY, total = 0, factor[of_lane], result = 0;
#pragma unroll
  for (int i = 0; i < of_lane; ++i) most = fmaxf(most, sum[i].x);
  most = warp_max(most);
#pragma unroll
  for (int i = 0; i < of_lane; ++i)
    factor[i] = expf(sum[i].x - most), total = fmaf(factor[i], sum[i].y, total);
  total = warp_sum(total);
#pragma unroll
  for (int turn = 0; turn < turns; ++turn) {
    const int first = turn * combined_together;  // its part is in the same 32
    result = fmaf(__shfl_sync(~0u, factor[first / 32], first % 32 + quarter), x[turn], result);
  }
  quarters[threadIdx.x] = result;
  __syncthreads();
  if (quarter > 0 || c >= values) return;
#pragma unroll
  for (int i = 1; i < combined_together; ++i) result += quarters[i * combined_channels + own];
  store_one(y + int64_t(blockIdx.x) * values + c, result / total);
}

}  // namespace

template <class Real>
void attention_by_rows(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu) {
  if (op.rows.rows == 0) return;
  const int64_t group = op.heads / op.kv_heads, values = op.values();
  const int64_t blocks = op.kv_heads * ((group + most_together - 1) / most_together);
  // Enough blocks for the GPU where there are few rows; how many depends on sizes alone, so that the
  // launch can be repeated whatever the caches have become.
  const int64_t wanted = 4 * gpu.properties().multiprocessors / (op.rows.rows * blocks);
  const int parts = int(std::clamp<int64_t>(wanted, 1, most_parts));
  PartResults results;
  if (parts > 1) {
    const int64_t all = op.rows.rows * op.heads * parts;
    const int64_t even = (all * values + 1) / 2 * 2;
    results.values = scratch.floats(gpu, even + 2 * all);
    results.sums = reinterpret_cast<float2*>(results.values + even);
  }
  const size_t shared = sizeof(SharedSums) + size_t(warps * of_warp * values) * sizeof(float);
  const auto launch_with = [&]<int width, int pieces>() {
    prefer_shared_carveout(attend_rows<Real, width, pieces>);
    launch_dependent(
        attend_rows<Real, width, pieces>,
        {dim3(unsigned(op.rows.rows), unsigned(blocks), unsigned(parts)), 32 * warps, shared}, gpu,
        op, parts, results);
  };
  const auto pieces_of = [&](int64_t width) { return (op.size + 32 * width - 1) / (32 * width); };
  if (in_eights({op.size, values, op.q_step}, {op.q})) {
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
  const auto pieces = unsigned((values + combined_channels - 1) / combined_channels);
  prefer_shared_carveout(combine_parts<Real>);
  launch_dependent(combine_parts<Real>,
                   {dim3(unsigned(op.rows.rows * op.heads), pieces), channel_threads,
                    channel_threads * sizeof(float)},
                   gpu, results, parts, int(values), op.y);
}

template void attention_by_rows(const Attention<float>&, AttentionScratch&, const Gpu&);
template void attention_by_rows(const Attention<bf16>&, AttentionScratch&, const Gpu&);

}  // namespace deltasane::kernel::cuda
