// One token of one head, from the products with a layer's first matrix to what the output matrix
// reads: low-rank up projections, the inputs of the recurrence, its step, group norm, bonus, gate
// (kernel/time_mix/time_mix.h has the equations). A block has `lanes` threads per channel. For .cu
// files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/sane/cuda_tau.cuh"
#include "kernel/time_mix/cuda_decay.cuh"
#include "model/rwkv7/decode/head_state.cuh"
#include "model/rwkv7/decode/layer_weights.h"
#include "model/rwkv7/decode/packed_weights.cuh"

namespace deltasane::rwkv7 {

// Where the inputs of the up projections begin in a layer's vector of down projections: w at 0,
// then these.
struct HeadRanks {
  int a, v, g, low;  // low: the end
  __host__ __device__ HeadRanks(const LayerSizes& s, bool first)
      : a(int(s.rank_wa)), v(2 * a), g(v + (first ? 0 : int(s.rank_v))), low(g + int(s.rank_g)) {}
  __device__ bool has_v() const { return g > v; }  // not in the first layer
};

// A channel's rows of the four up projections, concatenated as their inputs are in the vector of
// down projections: w a v g. The channel's threads take 16 bytes in turn; a thread has its first
// `kept` loads in registers.
template <class Weight, int lanes, int kept>
struct UpRow {
  static constexpr int V = weights_per_load<Weight>;
  uint4 raw[kept > 0 ? kept : 1];

  __device__ static int column(int i) { return (i * lanes + int(threadIdx.x) % lanes) * V; }
  __device__ static int projection_of(const HeadRanks& ranks, int c) {
    return c < ranks.a ? 0 : c < ranks.v ? 1 : c < ranks.g ? 2 : 3;
  }
  // Each projection's row of a channel, offset so that a column of the whole vector indexes it.
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
    __device__ void add(const uint4& raw, const float* low, int projection) {
      float x[V], sum = 0;
      unpack(raw, x, Weight());
#pragma unroll
      for (int i = 0; i < V; i += 4)
        sum += dot4(make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]),
                    *reinterpret_cast<const float4*>(low + i));
      w += projection == 0 ? sum : 0.0f, a += projection == 1 ? sum : 0.0f;
      v += projection == 2 ? sum : 0.0f, g += projection == 3 ? sum : 0.0f;
    }
  };
  __device__ Products multiply(const LayerWeights<Weight>& w, const HeadRanks& ranks,
                               int64_t channel, const float* low) const {
    Products sum;
#pragma unroll
    for (int i = 0; i < kept; ++i)
      if (const int c = column(i); c < ranks.low) sum.add(raw[i], low + c, projection_of(ranks, c));
    for (int i = kept; i * lanes * V < ranks.low; ++i)
      if (const int c = column(i); c < ranks.low)
        sum.add(Rows(w, ranks, channel).read(ranks, c), low + c, projection_of(ranks, c));
    return sum;
  }
};

// A head's rows of the up projections, into L2.
template <class Weight>
__device__ void prefetch_up_projections(const LayerWeights<Weight>& w, const LayerSizes& s,
                                        bool has_v, int64_t head) {
  const auto prefetch = [&](const Weight* matrix, int64_t rank) {
    prefetch_l2(matrix + head * head_size * rank, head_size * rank * int64_t(sizeof(Weight)));
  };
  prefetch(w.up_w, s.rank_wa), prefetch(w.up_a, s.rank_wa), prefetch(w.up_g, s.rank_g);
  if (has_v) prefetch(w.up_v, s.rank_v);
}

__host__ __device__ inline bool ends_chunk(const DecodeSane& sane, int64_t position) {
  return sane.kind != DecodeSane::Kind::none && (position + 1) % sane.chunk == 0;
}
__device__ inline float trained_tau(const DecodeSane& sane, float z) {
  return kernel::cuda::tau_of(z, sane.alpha);
}

// Each of a channel's threads finishes one of its four products: w a v g.
enum HeadRole { role_w, role_a, role_v, role_g, head_roles };
template <int lanes>
__device__ HeadRole role_of_thread() {
  return HeadRole(int(threadIdx.x) % lanes * head_roles / lanes);
}
// The product of the thread's role, summed over the channel's threads.
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

// What a head reads that does not depend on this token: loaded before the token's products are
// there.
template <class Weight, int lanes, int kept>
struct HeadPrefetch {
  HeadRow<lanes> s;
  UpRow<Weight, lanes, kept> up;
  float k_k, k_a, r_k;           // of the thread's channel
  float bias;                    // w0, a0 or v0, by the thread's role
  float norm_weight, norm_bias;  // of channel threadIdx.x
  float k_k_of_lane[2];          // of channels lane and lane + 32

  __device__ void load(const LayerWeights<Weight>& w, const HeadRanks& ranks, int64_t head,
                       const float* memory) {
    const int64_t first = head * head_size, c = first + threadIdx.x / lanes;
    s.load(memory);
    up.load(w, ranks, c);
    const HeadRole role = role_of_thread<lanes>();
    const float* const vector = role == role_w ? w.w0 : role == role_a ? w.a0 : w.v0;
    bias = role < role_v || (role == role_v && ranks.has_v()) ? vector[c] : 0.0f;
    k_k = w.k_k[c], k_a = w.k_a[c], r_k = w.r_k[c];
    const int64_t own = first + threadIdx.x % head_size;
    norm_weight = w.ln_x_weight[own], norm_bias = w.ln_x_bias[own];
    const int64_t lane = first + threadIdx.x % 32;
    k_k_of_lane[0] = w.k_k[lane], k_k_of_lane[1] = w.k_k[lane + 32];
  }
};

struct HeadRaw {  // of the head's channels, as the products wrote them
  const float *r, *k, *v;
};

struct HeadShared {  // in shared memory, 16-byte aligned
  HeadInputs in;
  float gate[head_size], products[head_size], read[head_size];
};

// The up projection of the thread's role and channel. low: the vector of down projections, in
// shared memory, 16-byte aligned and complete.
template <class Weight, int lanes, int kept>
__device__ float up_projection(const HeadPrefetch<Weight, lanes, kept>& early,
                               const LayerWeights<Weight>& w, const HeadRanks& ranks, int64_t head,
                               const float* low) {
  const int own = int(threadIdx.x) / lanes;
  return sum_of_role<lanes>(early.up.multiply(w, ranks, head * head_size + own, low));
}

// What the recurrence reads, as kernel::time_mix_inputs. up(): as up_projection; v_first: the
// head's.
template <class Weight, int lanes, int kept, class Up, class Stored>
__device__ void make_inputs(const HeadPrefetch<Weight, lanes, kept>& early, const HeadRanks& ranks,
                            const HeadRaw& raw, Up&& up, Stored* v_first, HeadShared& place) {
  const int own = int(threadIdx.x) / lanes, lane = int(threadIdx.x) % 32;
  // Each warp computes the length of the direction for itself.
  const float direction[2] = {raw.k[lane] * early.k_k_of_lane[0],
                              raw.k[lane + 32] * early.k_k_of_lane[1]};
  const float squares = warp_sum(direction[0] * direction[0] + direction[1] * direction[1]);
  const float projected = up();
  if (threadIdx.x % (lanes / head_roles) == 0) {
    const float gated = sigmoid(early.bias + projected);
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
        if (!ranks.has_v()) store_one(v_first + own, v);
        break;
      }
      default:
        place.gate[own] = projected;
    }
  }
  __syncthreads();
}

// The step of the state in `early`, with SANE where tau is above 0, then group norm, bonus and
// gate, as kernel::time_mix_output. Threads below 64 get what the output matrix reads of their
// channel.
template <class Weight, int lanes, int kept>
__device__ float finish_head(HeadPrefetch<Weight, lanes, kept>& early, float tau,
                             float group_norm_eps, HeadShared& place) {
  const float y = step_head(early.s, place.in, tau);
  if (threadIdx.x % lanes == 0) place.read[threadIdx.x / lanes] = y;
  __syncthreads();
  if (threadIdx.x >= head_size) return 0;  // whole warps
  const int own = int(threadIdx.x), lane = own % 32;
  const float read[2] = {place.read[lane], place.read[lane + 32]}, apart = read[0] - read[1];
  const auto [mean, squares] =
      warp_moments({0.5f * (read[0] + read[1]), 0.5f * apart * apart}, 2.0f);
  const float bonus = sum_of_head(place.products);
  const float scale = 1.0f / sqrtf(squares / head_size + group_norm_eps);
  const float off = (own < 32 ? read[0] : read[1]) - mean;
  const float normal = off * scale * early.norm_weight + early.norm_bias;
  return (normal + bonus * place.in.v[own]) * place.gate[own];
}

}  // namespace deltasane::rwkv7
