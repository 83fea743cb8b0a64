// The inputs of a block's products in token.cu: numbers that other blocks computed, norms, mixes.
// For .cu files.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/memory_order.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/cuda/approximate_math.cuh"
#include "model/rwkv7/decode/token.h"
#include "model/rwkv7/decode/weight_stream.cuh"

namespace deltasane::rwkv7 {

// Some seconds, after which a number that never arrives is an error instead of a hang.
inline constexpr int most_polls = 1 << 24;

// Whether a kernel for up to N sequences, which has so many, has this one.
template <int N>
__device__ bool is_there(int n, int sequences) {
  return N == 1 || n < sequences;
}

// Polls until all of some pairs have arrived, of which some were loaded before: those that have not
// are loaded together, so that this takes as long after the last arrival as one load. wanted(i):
// whether there is a pair i; place(i): its address.
template <int count, class Wanted, class Place>
__device__ void poll_pairs(TaggedPair (&pair)[count], uint32_t turn, Wanted wanted, Place place) {
  for (int polls = 0;; ++polls) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < count; ++i) all = all && (!wanted(i) || pair[i].has(turn));
    if (all) return;
    if (polls == most_polls) __trap();
    wait_for_others();
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (wanted(i) && !pair[i].has(turn)) pair[i] = load_tagged(place(i));
  }
}

// use(n, i, two numbers) for all pairs of `count` exchanged numbers of each of `sequences`, N at most,
// i even and place(n, i) their address. Pairs are dealt to the threads in turn; each polls for its
// own, with at_once N loads in flight.
template <int N, int at_once, class Place, class Use>
__device__ void each_exchanged(int sequences, int count, uint32_t turn, Place place, Use use) {
  constexpr int step = 2 * token_threads;
#pragma unroll 1
  for (int first = 2 * threadIdx.x; first < count; first += at_once * step) {
    TaggedPair pair[at_once * N];
    const auto column = [&](int i) { return first + i / N * step; };
    const auto wanted = [&](int i) {
      return column(i) < count && is_there<N>(i % N, sequences);
    };
    const auto place_of = [&](int i) { return place(i % N, column(i)); };
#pragma unroll
    for (int i = 0; i < at_once * N; ++i)
      if (wanted(i)) pair[i] = load_tagged(place_of(i));
    poll_pairs(pair, turn, wanted, place_of);
#pragma unroll
    for (int i = 0; i < at_once * N; ++i)
      if (wanted(i)) use(i % N, column(i), pair[i].values());
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
template <int pairs, int N>
struct NormVectors {
  // Further mixes are loaded late: few blocks have them.
  static constexpr int mixes = pairs == 1 ? 2 : 1;
  // Zeros, so that no registers stay live through a layer for channels that do not exist.
  float2 gain[pairs] = {}, bias[pairs] = {}, before[N][pairs] = {}, mu[mixes][pairs] = {};
};

// The tokens' rows, loaded before the weights, which would queue in front of them.
template <int pairs, int N>
struct Embedding {
  float2 value[N][pairs] = {}, gain[pairs], bias[pairs];

  template <class Weight>
  __device__ Embedding(const TokenWeights<Weight>& weights, int channels, const NextTokens& next) {
    each_pair<pairs>(channels, [&](int i, int c) {
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (is_there<N>(n, next.count)) {
          const Weight* const row = weights.embedding + int64_t(next.token[n]) * channels;
          value[n][i] = {to_float(row[c]), to_float(row[c + 1])};
        }
      if (!weights.embedding_gain) return;
      gain[i] = weight_at(weights.embedding_gain + c);
      bias[i] = weight_at(weights.embedding_bias + c);
    });
  }
};

struct NormScale {
  float mean, scale;
};

// Combines the moments of as many numbers: half of all.
__device__ inline WarpMoments combined(const WarpMoments& a, const WarpMoments& b, float half) {
  const float off = b.mean - a.mean;
  return {0.5f * (a.mean + b.mean), fmaf(off * off, half, a.squares + b.squares)};
}
// As reduce_scatter, of the moments of `count` rows, of which every lane has 2 half numbers.
template <int count, int step>
__device__ WarpMoments scatter_moments(WarpMoments (&x)[count], float half) {
  const auto received = [](const WarpMoments& from) {
    return WarpMoments{__shfl_xor_sync(~0u, from.mean, step),
                       __shfl_xor_sync(~0u, from.squares, step)};
  };
  if constexpr (step == 0) {
    return x[0];
  } else if constexpr (count == 1) {
    WarpMoments all[1] = {combined(x[0], received(x[0]), half)};
    return scatter_moments<1, step / 2>(all, 2 * half);
  } else {
    const bool upper = threadIdx.x & step;
    WarpMoments keep[count / 2];
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const WarpMoments &low = x[i], &high = x[i + count / 2];
      keep[i] = combined({upper ? high.mean : low.mean, upper ? high.squares : low.squares},
                         received({upper ? low.mean : high.mean, upper ? low.squares : high.squares}),
                         half);
    }
    return scatter_moments<count / 2, step / 2>(keep, 2 * half);
  }
}

// What the norms of a block leave in shared memory between two barriers.
template <int N>
struct NormShared {
  float4 moments[token_warps][N];  // of the warps: mean, squares about it, count
  NormScale scales[N];
};

// A block's vectors in shared memory, of `sequences`, N at most.
template <class Weight, int pairs, int N>
struct TokenInputs {
  using Vectors = TileVectors<Weight, N>;
  int channels, sequences;
  float* u;     // (N, C), the latest layer norms
  float* area;  // the mixes of all sequences after each other; or the input of a product
  NormShared<N>* shared;
  float share, eps;  // share: of a channel in a mean

  __device__ int words_of_mix() const { return N * Vectors::stride(channels); }
  // Two numbers of a product's input.
  __device__ static void put(float* at, float2 both) { TileInput<Weight, N>::put(at, both); }
  template <class Use>  // use(n)
  __device__ void each_sequence(Use use) const {
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (is_there<N>(n, sequences)) use(n);
  }

  // Mean and scale of the rows, for all threads, with one barrier, of several rows with two; another
  // one precedes the next call.
  //
  // Means and squares about them, of threads, then of warps, then, about the first warp's mean, of
  // all. That warp has a sixteenth of the numbers or more: so the squares about its mean are at
  // most 17 times those about the mean of all, which saves a second round of shuffles. The
  // root is off by two units in the last place at most.
  __device__ void scales_of(const float2 (&value)[N][pairs], NormScale (&scale)[N]) const {
    int count = 0;  // of each thread of the warp
    each_pair<pairs>(channels, [&](int, int) { count += 2; });
    const float weight = pairs == 1 ? 2.0f : float(count);
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    constexpr int lanes_of_row = 32 / N;
    WarpMoments of_warp[N];
#pragma unroll
    for (int n = 0; n < N; ++n) of_warp[n] = of_thread(value[n], count);
    const WarpMoments own = N == 1 ? warp_moments(of_warp[0], weight)
                                   : scatter_moments<N, 16>(of_warp, 0.5f * weight);
    if (lane % lanes_of_row == 0)
      shared->moments[warp][lane / lanes_of_row] = {own.mean, own.squares, 32.0f * float(count),
                                                    0.0f};
    __syncthreads();
    if constexpr (N == 1) {
      scale[0] = scale_of_warps(0);
    } else {
      if (warp < N) {
        const NormScale found = scale_of_warps(warp);
        if (lane == 0) shared->scales[warp] = found;
      }
      __syncthreads();
#pragma unroll
      for (int n = 0; n < N; ++n) scale[n] = shared->scales[n];
    }
  }
  __device__ NormScale scale_of_warps(int n) const {
    const float4 own = shared->moments[threadIdx.x % token_warps][n];
    const float first = shared->moments[0][n].x, away = own.x - first, all_away = own.z * away;
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

  // u becomes the tokens' embeddings.
  __device__ void embed(Embedding<pairs, N>& tokens, bool has_norm) const {
    if (has_norm) {
      NormScale scale[N];
      scales_of(tokens.value, scale);
      each_pair<pairs>(channels, [&](int i, int) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
          float2& x = tokens.value[n][i];
          x = {(x.x - scale[n].mean) * scale[n].scale * tokens.gain[i].x + tokens.bias[i].x,
               (x.y - scale[n].mean) * scale[n].scale * tokens.gain[i].y + tokens.bias[i].y};
        }
      });
    }
    each_pair<pairs>(channels, [&](int i, int c) {
      each_sequence([&](int n) { two(u + n * channels + c) = tokens.value[n][i]; });
    });
    __syncthreads();
  }

  // Layer norm of x, and `mixes` mixes with the rows before it, which shift(n) has: mu(i) of mix i.
  // Without `has_shift` there is one mix, the norm.
  template <class Shift, class Mu>
  __device__ void norm(const float* weight, const float* offset, bool has_shift, Shift shift,
                       int mixes, Mu mu, const float* x, uint32_t turn) const {
    NormVectors<pairs, N> of{};  // not live from one norm to the next
    each_pair<pairs>(channels, [&](int i, int c) {
      of.gain[i] = weight_at(weight + c), of.bias[i] = weight_at(offset + c);
      if (!has_shift) return;
      each_sequence([&](int n) { of.before[n][i] = shift_at(shift(n) + c); });
#pragma unroll
      for (int m = 0; m < NormVectors<pairs, N>::mixes; ++m)
        if (m < mixes) of.mu[m][i] = weight_at(mu(m) + c);
    });
    TaggedPair pair[N * pairs];
    const auto channel = [&](int i) { return 2 * (int(threadIdx.x) + i / N * token_threads); };
    const auto wanted = [&](int i) {
      return channel(i) < channels && is_there<N>(i % N, sequences);
    };
    const auto place = [&](int i) { return x + i % N * channels + channel(i); };
#pragma unroll
    for (int i = 0; i < N * pairs; ++i)
      if (wanted(i)) pair[i] = load_tagged(place(i));
    poll_pairs(pair, turn, wanted, place);
    float2 value[N][pairs] = {};
#pragma unroll
    for (int i = 0; i < N * pairs; ++i)
      if (wanted(i)) value[i % N][i / N] = pair[i].values();
    NormScale scale[N];
    scales_of(value, scale);
    each_pair<pairs>(channels, [&](int i, int c) {
      each_sequence([&](int n) {
        const auto [mean, by] = scale[n];
        value[n][i] = {(value[n][i].x - mean) * by * of.gain[i].x + of.bias[i].x,
                       (value[n][i].y - mean) * by * of.gain[i].y + of.bias[i].y};
        two(u + n * channels + c) = value[n][i];
      });
      float* const first = area + Vectors::word(c);
      const auto mix_with = [&](int m, float2 by) {
        each_sequence([&](int n) {
          const float2 &now = value[n][i], &before = of.before[n][i];
          put(first + m * words_of_mix() + n * Vectors::stride(channels),
              {now.x + (before.x - now.x) * by.x, now.y + (before.y - now.y) * by.y});
        });
      };
      if (!has_shift) {
        each_sequence([&](int n) { put(first + n * Vectors::stride(channels), value[n][i]); });
        return;
      }
#pragma unroll
      for (int m = 0; m < NormVectors<pairs, N>::mixes; ++m)
        if (m < mixes) mix_with(m, of.mu[m][i]);
#pragma unroll 1
      for (int m = NormVectors<pairs, N>::mixes; m < mixes; ++m) mix_with(m, weight_at(mu(m) + c));
    });
    __syncthreads();
  }
  // `count` exchanged numbers of each sequence become the input of a product.
  __device__ void stage(const float* from, int count, uint32_t turn) const {
    const int padded = padded_columns<Weight>(count), stride = Vectors::stride(padded);
    each_exchanged<N, N <= 2 ? 4 : 2>(
        sequences, count, turn, [&](int n, int c) { return from + n * count + c; },
        [&](int n, int c, float2 both) { put(area + n * stride + Vectors::word(c), both); });
#pragma unroll 1
    for (int c = count + 2 * int(threadIdx.x); c < padded; c += 2 * token_threads)
      each_sequence([&](int n) { put(area + n * stride + Vectors::word(c), {0, 0}); });
    __syncthreads();
  }
};

}  // namespace deltasane::rwkv7
