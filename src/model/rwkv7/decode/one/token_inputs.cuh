// The inputs of a block's products in token.cu: numbers that other blocks computed, norms, mixes.
// For .cu files.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/memory_order.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/cuda/approximate_math.cuh"
#include "model/rwkv7/decode/one/token.h"
#include "model/rwkv7/decode/one/weight_stream.cuh"

namespace deltasane::rwkv7::one {

// Some seconds, after which a number that never arrives is an error instead of a hang.
inline constexpr int most_polls = 1 << 24;

// The two numbers at `place`; polls until they have arrived.
__device__ inline float2 poll_pair(TaggedPair pair, const float* place, uint32_t turn) {
  for (int polls = 0; !pair.has(turn); ++polls) {
    if (polls == most_polls) __trap();
    wait_for_others();
    pair = load_tagged(place);
  }
  return pair.values();
}

// use(i, two numbers) for all pairs of `count` exchanged numbers, i even and place(i) their
// address. Pairs are dealt to the threads in turn; each polls for its own, with four loads in
// flight.
template <class Place, class Use>
__device__ void each_exchanged(int count, uint32_t turn, Place place, Use use) {
  constexpr int at_once = 4, step = 2 * token_threads;
#pragma unroll 1
  for (int first = 2 * threadIdx.x; first < count; first += at_once * step) {
    TaggedPair pair[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + i * step < count) pair[i] = load_tagged(place(first + i * step));
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int at = first + i * step;
      if (at < count) use(at, poll_pair(pair[i], place(at), turn));
    }
  }
}

// Of a row each thread has the channels 2 (t + 512 i) and 2 (t + 512 i) + 1: a warp has 64
// contiguous ones, all of them or none.
inline constexpr int most_pairs = 4;
template <int pairs, class Use>  // use(i, channel)
__device__ void each_pair(int channels, Use use) {
  int thread = int(threadIdx.x);
  optimization_barrier(thread);  // recompute addresses: kept, they would fill the registers
#pragma unroll
  for (int i = 0; i < pairs; ++i)
    if (const int c = 2 * (thread + i * token_threads); c < channels) use(i, c);
}

// What a norm needs beside x, loaded before polling for x.
template <int pairs>
struct NormVectors {
  // Further mixes are loaded late: few blocks have them.
  static constexpr int mixes = pairs == 1 ? 2 : 1;
  // Zeros, so that no registers stay live through a layer for channels that do not exist.
  float2 gain[pairs] = {}, bias[pairs] = {}, before[pairs] = {}, mu[mixes][pairs] = {};
};

// A token's row, loaded before the weights, which would queue in front of it.
template <int pairs>
struct Embedding {
  float2 value[pairs] = {}, gain[pairs], bias[pairs];

  template <class Weight>
  __device__ Embedding(const TokenWeights<Weight>& weights, int channels, int32_t token) {
    const Weight* const row = weights.embedding + int64_t(token) * channels;
    each_pair<pairs>(channels, [&](int i, int c) {
      value[i] = {to_float(row[c]), to_float(row[c + 1])};
      if (!weights.embedding_gain) return;
      gain[i] = weight_at(weights.embedding_gain + c);
      bias[i] = weight_at(weights.embedding_bias + c);
    });
  }
};

struct NormScale {
  float mean, scale;
};

// A block's vectors in shared memory.
template <class Weight, int pairs>
struct TokenInputs {
  int channels;
  float* u;         // (C), the latest layer norm
  float* area;      // the mixes (C) each; or the input of a product
  float4* moments;  // of the warps: mean, squares about it, count
  float eps;

  __device__ float* mix(int i) const { return area + i * channels; }
  // Two numbers of a product's input.
  __device__ static void put(float* at, float2 both) { TileInput<Weight>::put(at, both); }

  // Mean and scale of a row, for all threads, with one barrier; another one precedes the next call.
  //
  // Means and squares about them, of threads, then of warps, then, about the first warp's mean, of
  // all. That warp has a sixteenth of the numbers or more: so the squares about its mean are at
  // most 17 times those about the mean of all, which saves a second round of shuffles. The
  // reciprocal is off by a unit in the last place at most, the root by two.
  __device__ NormScale scale_of(const float2 (&value)[pairs]) const {
    int count = 0;  // of each thread of the warp
    each_pair<pairs>(channels, [&](int, int) { count += 2; });
    const WarpMoments of_warp =
        warp_moments(of_thread(value, count), pairs == 1 ? 2.0f : float(count));
    if (threadIdx.x % 32 == 0)
      moments[threadIdx.x / 32] = {of_warp.mean, of_warp.squares, 32.0f * float(count), 0.0f};
    __syncthreads();
    const float4 own = moments[threadIdx.x % token_warps];
    const float first = moments[0].x, away = own.x - first, all_away = own.z * away;
    const float share = reciprocal_approx(float(channels));
    const float sum = warps_sum(all_away), about_first = warps_sum(fmaf(all_away, away, own.y));
    const float off = sum * share, about = fmaf(-sum, off, about_first);
    return {first + off, rsqrtf(about * share + eps)};
  }
  // With one pair a thread the count is known at compile time: threads without channels have zeros,
  // which have no weight in the end.
  __device__ WarpMoments of_thread(const float2 (&value)[pairs], int count) const {
    if constexpr (pairs == 1) {
      const float apart = value[0].x - value[0].y;
      return {0.5f * (value[0].x + value[0].y), 0.5f * apart * apart};
    }
    float mean = 0, squares = 0;
    each_pair<pairs>(channels, [&](int i, int) { mean += value[i].x + value[i].y; });
    mean *= count ? reciprocal_approx(float(count)) : 0.0f;
    each_pair<pairs>(channels, [&](int i, int) {
      const float a = value[i].x - mean, b = value[i].y - mean;
      squares += a * a + b * b;
    });
    return {mean, squares};
  }
  // Over neighbouring threads, each of which has one warp's number.
  __device__ static float warps_sum(float x) {
#pragma unroll
    for (int away = token_warps / 2; away > 0; away /= 2) x += __shfl_xor_sync(~0u, x, away);
    return x;
  }

  // u becomes the token's embedding.
  __device__ void embed(Embedding<pairs>& token, bool has_norm) const {
    if (has_norm) {
      const auto [mean, scale] = scale_of(token.value);
      each_pair<pairs>(channels, [&](int i, int) {
        float2& x = token.value[i];
        x = {(x.x - mean) * scale * token.gain[i].x + token.bias[i].x,
             (x.y - mean) * scale * token.gain[i].y + token.bias[i].y};
      });
    }
    each_pair<pairs>(channels, [&](int i, int c) { two(u + c) = token.value[i]; });
    __syncthreads();
  }

  // Layer norm of x, and `mixes` mixes with the row before it: mu(i) of mix i. Without `shift`
  // there is one mix, the norm.
  template <class Mu>
  __device__ void norm(const float* weight, const float* offset, const float* shift, int mixes,
                       Mu mu, const float* x, uint32_t turn) const {
    NormVectors<pairs> of{};  // not live from one norm to the next
    each_pair<pairs>(channels, [&](int i, int c) {
      of.gain[i] = weight_at(weight + c), of.bias[i] = weight_at(offset + c);
      if (!shift) return;
      of.before[i] = shift_at(shift + c);
#pragma unroll
      for (int m = 0; m < NormVectors<pairs>::mixes; ++m)
        if (m < mixes) of.mu[m][i] = weight_at(mu(m) + c);
    });
    TaggedPair pair[pairs];
    each_pair<pairs>(channels, [&](int i, int c) { pair[i] = load_tagged(x + c); });
    float2 value[pairs] = {};
    each_pair<pairs>(channels,
                     [&](int i, int c) { value[i] = poll_pair(pair[i], x + c, turn); });
    const auto [mean, scale] = scale_of(value);
    each_pair<pairs>(channels, [&](int i, int c) {
      const float2 n{(value[i].x - mean) * scale * of.gain[i].x + of.bias[i].x,
                     (value[i].y - mean) * scale * of.gain[i].y + of.bias[i].y};
      two(u + c) = n;
      const auto mix_with = [&](int m, float2 by) {
        put(mix(m) + c, {n.x + (of.before[i].x - n.x) * by.x, n.y + (of.before[i].y - n.y) * by.y});
      };
      if (!shift) {
        put(mix(0) + c, n);
        return;
      }
#pragma unroll
      for (int m = 0; m < NormVectors<pairs>::mixes; ++m)
        if (m < mixes) mix_with(m, of.mu[m][i]);
#pragma unroll 1
      for (int m = NormVectors<pairs>::mixes; m < mixes; ++m) mix_with(m, weight_at(mu(m) + c));
    });
    __syncthreads();
  }
  // `count` exchanged numbers become the input of a product.
  __device__ void stage(const float* from, int count, uint32_t turn) const {
    each_exchanged(
        count, turn, [&](int c) { return from + c; },
        [&](int c, float2 both) { put(area + c, both); });
#pragma unroll 1
    for (int c = count + threadIdx.x; c < padded_columns<Weight>(count); c += token_threads)
      area[c] = 0;
    __syncthreads();
  }
};

}  // namespace deltasane::rwkv7::one
