// One token of one head, from the raw products of its layer to what the output matrix reads: the
// second factors, the inputs of the recurrence, its step, group norm, bonus, gate. A block has
// `lanes` threads per channel. For .cu files.
#pragma once

#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_decode_parts.cuh"
#include "kernel/rwkv7/cuda_gates.cuh"
#include "kernel/rwkv7/cuda_head.cuh"

namespace deltasane::kernel::cuda {

inline constexpr float group_norm_eps = 64e-5f;

// Where the inputs of the second factors begin in a layer's low vector: w at 0, then these.
struct HeadRanks {
  int a, v, g, low;  // low: the end
  __host__ __device__ HeadRanks(const LayerSizes& s, bool first)
      : a(int(s.rank_wa)), v(2 * a), g(v + (first ? 0 : int(s.rank_v))), low(g + int(s.rank_g)) {}
  __device__ bool has_v() const { return g > v; }  // not in the first layer
};

// The rows of the second factors that make a channel, side by side as the low vector has their
// inputs: w a v g. They are dealt to the channel's threads by 16 bytes; a thread has its first
// `kept` in registers.
template <class Weight, int lanes, int kept>
struct UpRow {
  static constexpr int V = per_load<Weight>;
  uint4 raw[kept > 0 ? kept : 1];

  __device__ static int column(int i) { return (i * lanes + int(threadIdx.x) % lanes) * V; }
  __device__ static int factor_of(const HeadRanks& ranks, int c) {
    return c < ranks.a ? 0 : c < ranks.v ? 1 : c < ranks.g ? 2 : 3;
  }
  // Where the low vector's columns would begin in each factor's row of a channel.
  struct Rows {
    const Weight *w, *a, *v, *g;
    __device__ Rows(const LayerWeights<Weight>& of, const HeadRanks& ranks, int64_t channel)
        : w(of.up_w + channel * ranks.a),
          a(of.up_a + channel * ranks.a - ranks.a),
          v(of.up_v + channel * (ranks.g - ranks.v) - ranks.v),
          g(of.up_g + channel * (ranks.low - ranks.g) - ranks.g) {}
    __device__ uint4 read(const HeadRanks& ranks, int c) const {
      const Weight* const row = c < ranks.a ? w : c < ranks.v ? a : c < ranks.g ? v : g;
      return *reinterpret_cast<const uint4*>(row + c);
    }
  };

  __device__ void load(const LayerWeights<Weight>& w, const HeadRanks& ranks, int64_t channel) {
    const Rows rows(w, ranks, channel);
#pragma unroll
    for (int i = 0; i < kept; ++i)
      raw[i] = column(i) < ranks.low ? rows.read(ranks, column(i)) : make_uint4(0, 0, 0, 0);
  }

  // The thread's part of the four products.
  struct Products {
    float w = 0, a = 0, v = 0, g = 0;
    __device__ void add(const uint4& raw, const float* low, int factor) {
      float x[V], sum = 0;
      unpack(raw, x, Weight());
#pragma unroll
      for (int i = 0; i < V; i += 4)
        sum += dot4(make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]),
                    *reinterpret_cast<const float4*>(low + i));
      w += factor == 0 ? sum : 0.0f, a += factor == 1 ? sum : 0.0f;
      v += factor == 2 ? sum : 0.0f, g += factor == 3 ? sum : 0.0f;
    }
  };
  __device__ Products multiply(const LayerWeights<Weight>& w, const HeadRanks& ranks,
                               int64_t channel, const float* low) const {
    Products sum;
#pragma unroll
    for (int i = 0; i < kept; ++i)
      if (const int c = column(i); c < ranks.low) sum.add(raw[i], low + c, factor_of(ranks, c));
    for (int i = kept; i * lanes * V < ranks.low; ++i)
      if (const int c = column(i); c < ranks.low)
        sum.add(Rows(w, ranks, channel).read(ranks, c), low + c, factor_of(ranks, c));
    return sum;
  }
};

// Brings the second factors' rows of a head into the cache.
template <class Weight>
__device__ void ask_for_factors(const LayerWeights<Weight>& w, const LayerSizes& s, bool has_v,
                                int64_t head) {
  const auto ask = [&](const Weight* factor, int64_t rank) {
    ask_for(factor + head * head_size * rank, head_size * rank * int64_t(sizeof(Weight)));
  };
  ask(w.up_w, s.rank_wa), ask(w.up_a, s.rank_wa), ask(w.up_g, s.rank_g);
  if (has_v) ask(w.up_v, s.rank_v);
}

__device__ inline bool ends_chunk(const DecodeSane& sane, int64_t position) {
  return sane.kind != DecodeSane::Kind::none && (position + 1) % sane.chunk == 0;
}
__device__ inline float trained_tau(const DecodeSane& sane, float z) {
  return sane.alpha * (fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z)))) + 1.0f;
}

// Each of a channel's threads finishes one of its four products: w a v g.
enum HeadRole { role_w, role_a, role_v, role_g, head_roles };
template <int lanes>
__device__ HeadRole role_of_thread() {
  return HeadRole(int(threadIdx.x) % lanes * head_roles / lanes);
}
// The sum over the channel's threads of the one that is the thread's.
template <int lanes, class Products>
__device__ float sum_of_role(const Products& part) {
  constexpr int far = lanes / 2, near = lanes / 4;
  const bool upper = threadIdx.x & far, odd = threadIdx.x & near;
  const float even_role =
      (upper ? part.v : part.w) + __shfl_xor_sync(~0u, upper ? part.w : part.v, far);
  const float odd_role =
      (upper ? part.g : part.a) + __shfl_xor_sync(~0u, upper ? part.a : part.g, far);
  float sum = (odd ? odd_role : even_role) + __shfl_xor_sync(~0u, odd ? even_role : odd_role, near);
#pragma unroll
  for (int step = near / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

// What a head reads that this token has not made: asked for before the token's products are there.
template <class Weight, int lanes, int kept>
struct HeadEarly {
  HeadRow<lanes> s;
  UpRow<Weight, lanes, kept> up;
  float k_k, k_a, r_k;           // of the thread's channel
  float added;                   // w0, a0 or v0, by the thread's role
  float norm_weight, norm_bias;  // of channel threadIdx.x
  float k_k_of_lane[2];          // of the channels that the thread has in its warp, 32 apart

  __device__ void load(const LayerWeights<Weight>& w, const HeadRanks& ranks, int64_t head,
                       const float* memory) {
    const int64_t first = head * head_size, c = first + threadIdx.x / lanes;
    s.load(memory);
    up.load(w, ranks, c);
    const HeadRole role = role_of_thread<lanes>();
    const float* const vector = role == role_w ? w.w0 : role == role_a ? w.a0 : w.v0;
    added = role < role_v || (role == role_v && ranks.has_v()) ? vector[c] : 0.0f;
    k_k = w.k_k[c], k_a = w.k_a[c], r_k = w.r_k[c];
    const int64_t own = first + threadIdx.x % head_size;
    norm_weight = w.ln_x_weight[own], norm_bias = w.ln_x_bias[own];
    const int64_t lane = first + threadIdx.x % 32;
    k_k_of_lane[0] = w.k_k[lane], k_k_of_lane[1] = w.k_k[lane + 32];
  }
};

struct HeadRaw {  // of the head's channels, as the products left them
  const float *r, *k, *v;
};

struct HeadPlace {  // in shared memory, 16-byte aligned
  HeadInputs in;
  float gate[head_size], products[head_size], read[head_size];
};

// The thread's role's product of its channel with the low vector, which is in shared memory,
// 16-byte aligned and complete.
template <class Weight, int lanes, int kept>
__device__ float second_factors(const HeadEarly<Weight, lanes, kept>& early,
                                const LayerWeights<Weight>& w, const HeadRanks& ranks, int64_t head,
                                const float* low) {
  const int own = int(threadIdx.x) / lanes;
  return sum_of_role<lanes>(early.up.multiply(w, ranks, head * head_size + own, low));
}

// What the recurrence reads, as kernel::time_mix_inputs. second(): as second_factors; v_first: the
// head's.
template <class Weight, int lanes, int kept, class Second, class Stored>
__device__ void make_inputs(const HeadEarly<Weight, lanes, kept>& early, const HeadRanks& ranks,
                            const HeadRaw& raw, Second&& second, Stored* v_first,
                            HeadPlace& place) {
  const int own = int(threadIdx.x) / lanes, lane = int(threadIdx.x) % 32;
  // Every warp finds the length of the direction by itself.
  const float direction[2] = {raw.k[lane] * early.k_k_of_lane[0],
                              raw.k[lane + 32] * early.k_k_of_lane[1]};
  const float squares = warp_sum(direction[0] * direction[0] + direction[1] * direction[1]);
  const float up = second();
  if (threadIdx.x % (lanes / head_roles) == 0) {
    const float gated = sigmoid(early.added + up);
    switch (role_of_thread<lanes>()) {
      case role_w:
        place.in.w[own] = decay_of(gated);
        break;
      case role_a: {
        const float r = raw.r[own], k = raw.k[own];
        const float mixed_k = k * (1.0f + (gated - 1.0f) * early.k_a);
        const float kappa = k * early.k_k * (1.0f / fmaxf(sqrtf(squares), 1e-12f));
        place.in.r[own] = r, place.in.k[own] = mixed_k;
        place.in.a[own] = -kappa, place.in.b[own] = kappa * gated;
        place.products[own] = r * mixed_k * early.r_k;
        break;
      }
      case role_v: {
        const float v = raw.v[own];
        place.in.v[own] = ranks.has_v() ? v + (to_float(v_first[own]) - v) * gated : v;
        if (!ranks.has_v()) put(v_first + own, v);
        break;
      }
      default:
        place.gate[own] = up;
    }
  }
  __syncthreads();
}

// The state of `early` goes on, by tau where a chunk ends (above 0). Threads below 64 get what the
// output matrix reads of their channel.
template <class Weight, int lanes, int kept>
__device__ float finish_head(HeadEarly<Weight, lanes, kept>& early, float tau, HeadPlace& place) {
  const float y = step_head(early.s, place.in, tau);
  if (threadIdx.x % lanes == 0) place.read[threadIdx.x / lanes] = y;
  __syncthreads();
  if (threadIdx.x >= head_size) return 0;  // whole warps
  const int own = int(threadIdx.x), lane = own % 32;
  const float read[2] = {place.read[lane], place.read[lane + 32]}, apart = read[0] - read[1];
  const auto [mean, squares] =
      warp_moments({0.5f * (read[0] + read[1]), 0.5f * apart * apart}, 2.0f);
  const float bonus = head_sum(place.products);
  const float scale = 1.0f / sqrtf(squares / head_size + group_norm_eps);
  const float off = (own < 32 ? read[0] : read[1]) - mean;
  const float normal = off * scale * early.norm_weight + early.norm_bias;
  return (normal + bonus * place.in.v[own]) * place.gate[own];
}

}  // namespace deltasane::kernel::cuda
