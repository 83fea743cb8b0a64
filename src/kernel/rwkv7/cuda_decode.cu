#include <algorithm>

#include "base/error.h"
#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_head.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr float norm_eps = 1e-5f, group_norm_eps = 64e-5f;
constexpr int threads = 256, warps = threads / 32;
constexpr int in_flight = 8;           // loads of 16 bytes that a thread has asked for at once
constexpr int tile_floats = 16 << 10;  // of inputs in shared memory

enum class Then { nothing, tanh, sigmoid, squared_relu };

// Rows of a matrix that read the same input and are treated alike; a multiple of 16 of them.
struct Segment {
  int64_t first = 0;
  const float* mu = nullptr;
  Then then = Then::nothing;
};

// out = W input(x), for each sequence. input is x, its layer norm, or the norm mixed with the norm
// of the token before.
template <class Weight>
struct FewProduct {
  const Weight* matrix = nullptr;
  int64_t rows = 0, columns = 0, sequences = 0;
  const float* x = nullptr;                                  // (sequences, columns)
  const float *norm_weight = nullptr, *norm_bias = nullptr;  // null: no norm
  const DecodeInputs* inputs = nullptr;
  int64_t shift_at = 0;  // of the token before, in a state; where segments have a mu
  int segments = 1;
  Segment segment[7];
  float* keep_u = nullptr;  // (sequences, columns), takes the norm
  const float* mu_tau = nullptr;
  float* keep_tau = nullptr;     // takes the norm mixed with mu_tau
  const float* shift = nullptr;  // (sequences, rows), becomes the states' at shift_at; null: not
  float* out = nullptr;          // (sequences, rows)
  bool add = false;
  int64_t tile = 0;  // columns of the input in shared memory at a time
};

template <class Weight>
constexpr int per_load = 16 / int(sizeof(Weight));
template <class Weight, int R>
constexpr int piece_columns = in_flight / R * 32 * per_load<Weight>;

__device__ void unpack(const uint4& raw, float (&to)[8], bf16) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
__device__ void unpack(const uint4& raw, float (&to)[4], float) {
  to[0] = __uint_as_float(raw.x), to[1] = __uint_as_float(raw.y);
  to[2] = __uint_as_float(raw.z), to[3] = __uint_as_float(raw.w);
}

// A warp's part of R rows: piece_columns of each.
template <class Weight, int R>
struct Piece {
  uint4 raw[R][in_flight / R];

  __device__ void load(const FewProduct<Weight>& p, int64_t row, int64_t from) {
    const int64_t mine = from + int64_t(threadIdx.x % 32) * per_load<Weight>;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Weight* const weights = p.matrix + min(row + r, p.rows - 1) * p.columns;
#pragma unroll
      for (int u = 0; u < in_flight / R; ++u) {
        const int64_t c = mine + u * 32 * per_load<Weight>;
        raw[r][u] = c < p.columns ? __ldcs(reinterpret_cast<const uint4*>(weights + c))
                                  : make_uint4(0, 0, 0, 0);
      }
    }
  }
  template <int N>
  __device__ void multiply(const float* input, int64_t tile, float (&sum)[R][N]) const {
    constexpr int V = per_load<Weight>;
#pragma unroll
    for (int u = 0; u < in_flight / R; ++u) {
      float w[R][V];
#pragma unroll
      for (int r = 0; r < R; ++r) unpack(raw[r][u], w[r], Weight());
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float* const x = input + n * tile + (u * 32 + int(threadIdx.x) % 32) * V;
#pragma unroll
        for (int v = 0; v < V; v += 4) {
          const float4 four = *reinterpret_cast<const float4*>(x + v);
#pragma unroll
          for (int r = 0; r < R; ++r)
            sum[r][n] += w[r][v] * four.x + w[r][v + 1] * four.y + w[r][v + 2] * four.z +
                         w[r][v + 3] * four.w;
        }
      }
    }
  }
};

struct Norm {
  float mean, scale;
};

// Of a row, by a warp.
__device__ Norm norm_of(const float* x, int64_t count) {
  const int64_t lane = threadIdx.x % 32;
  float sum = 0, squares = 0;
  for (int64_t c = lane * 4; c < count; c += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + c);
    sum += (v.x + v.y) + (v.z + v.w);
  }
  const float mean = warp_sum(sum) / float(count);
  for (int64_t c = lane * 4; c < count; c += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + c);
    const float a = v.x - mean, b = v.y - mean, d = v.z - mean, e = v.w - mean;
    squares += (a * a + b * b) + (d * d + e * e);
  }
  return {mean, 1.0f / sqrtf(warp_sum(squares) / float(count) + norm_eps)};
}

template <class Weight>
__device__ float norm_at(const FewProduct<Weight>& p, const Norm& norm, int64_t sequence,
                         int64_t c) {
  const float x = p.x[sequence * p.columns + c];
  return p.norm_weight ? (x - norm.mean) * norm.scale * p.norm_weight[c] + p.norm_bias[c] : x;
}
template <class Weight>
__device__ float mixed(const FewProduct<Weight>& p, float u, int64_t sequence, int64_t c,
                       const float* mu) {
  return mu ? u + (p.inputs->state[sequence][p.shift_at + c] - u) * mu[c] : u;
}

// The input of [from, from + tile), zero beyond the last column.
template <class Weight, int N>
__device__ void stage(const FewProduct<Weight>& p, const Norm (&norm)[N], int64_t from,
                      const float* mu, float* tile) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int64_t sequence = min(int64_t(n), p.sequences - 1);
    for (int64_t i = threadIdx.x; i < p.tile; i += threads) {
      const int64_t c = from + i;
      tile[n * p.tile + i] =
          c < p.columns ? mixed(p, norm_at(p, norm[n], sequence, c), sequence, c, mu) : 0.0f;
    }
  }
}

__device__ void ask_for(const void* from, int64_t bytes) {
  for (int64_t i = threadIdx.x * 128; i < bytes; i += threads * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + i));
}

__device__ float finished(float value, Then then) {
  switch (then) {
    case Then::tanh:
      return tanhf(value);
    case Then::sigmoid:
      return 1.0f / (1.0f + expf(-value));
    case Then::squared_relu:
      return value < 0 ? 0.0f : value * value;  // keeps NaN
    default:
      return value;
  }
}

template <class Weight>
__device__ int segment_of(const FewProduct<Weight>& p, int64_t row) {
  int segment = 0;
  while (segment + 1 < p.segments && p.segment[segment + 1].first <= row) ++segment;
  return segment;
}

// N sequences at most, R rows per warp at a time.
template <class Weight, int N, int R>
__global__ void __launch_bounds__(threads) few_product(FewProduct<Weight> p) {
  extern __shared__ __align__(16) float tile[];  // (N, p.tile)
  __shared__ Norm norm[N];
  constexpr int64_t columns_at_once = piece_columns<Weight, R>;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto row_of = [&](int64_t group) { return (group * warps + warp) * R; };
  const int64_t groups = (p.rows + warps * R - 1) / (warps * R);
  Piece<Weight, R> piece;
  let_next_kernel_start();
  piece.load(p, row_of(blockIdx.x), 0);
  if (p.norm_weight) {
    ask_for(p.norm_weight, p.columns * int64_t(sizeof(float)));
    ask_for(p.norm_bias, p.columns * int64_t(sizeof(float)));
  }
  if (const float* const mu = p.segment[segment_of(p, int64_t(blockIdx.x) * warps * R)].mu) {
    ask_for(mu, p.columns * int64_t(sizeof(float)));
    for (int64_t n = 0; n < p.sequences; ++n)
      ask_for(p.inputs->state[n] + p.shift_at, p.columns * int64_t(sizeof(float)));
  }
  wait_for_kernel_before();

  if (p.norm_weight) {
    if (warp < N) {
      const Norm found = norm_of(p.x + min(int64_t(warp), p.sequences - 1) * p.columns, p.columns);
      if (lane == 0) norm[warp] = found;
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && p.keep_u)
    for (int64_t i = threadIdx.x; i < p.sequences * p.columns; i += threads) {
      const int64_t n = i / p.columns, c = i % p.columns;
      const float u = norm_at(p, norm[n], n, c);
      p.keep_u[i] = u;
      if (p.mu_tau) p.keep_tau[i] = mixed(p, u, n, c, p.mu_tau);
    }

  if (blockIdx.x == 0 && p.shift)
    for (int64_t n = 0; n < p.sequences; ++n)
      for (int64_t c = threadIdx.x; c < p.rows; c += threads)
        p.inputs->state[n][p.shift_at + c] = p.shift[n * p.rows + c];

  int64_t staged_from = -1;
  int staged_segment = -1;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const int segment = segment_of(p, group * warps * R);
    float sum[R][N] = {};
    for (int64_t from = 0; from < p.columns; from += columns_at_once) {
      const int64_t tile_from = from / p.tile * p.tile;
      if (tile_from != staged_from || segment != staged_segment) {
        __syncthreads();
        stage<Weight, N>(p, norm, tile_from, p.segment[segment].mu, tile);
        __syncthreads();
        staged_from = tile_from, staged_segment = segment;
      }
      Piece<Weight, R> next = piece;
      if (from + columns_at_once < p.columns)
        next.load(p, row_of(group), from + columns_at_once);
      else if (group + gridDim.x < groups)
        next.load(p, row_of(group + gridDim.x), 0);
      piece.template multiply<N>(tile + (from - tile_from), p.tile, sum);
      piece = next;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float value = finished(warp_sum(sum[r][n]), p.segment[segment].then);
        const int64_t row = row_of(group) + r;
        if (lane != r * N + n || n >= p.sequences || row >= p.rows) continue;
        float& place = p.out[n * p.rows + row];
        place = p.add ? place + value : value;
      }
  }
}

// Many rows: two per warp, so that an input read from shared memory is used twice.
template <class Weight, int N>
void multiply_few(FewProduct<Weight> p, const Gpu& gpu) {
  const int64_t processors = gpu.facts().multiprocessors;
  const int rows_per_warp = p.rows >= 24 * processors ? 2 : 1;
  const auto run = [&]<int R>() {
    constexpr int64_t at_once = piece_columns<Weight, R>;
    const int64_t all = (p.columns + at_once - 1) / at_once * at_once;
    p.tile = std::min<int64_t>(all, tile_floats / N / at_once * at_once);
    const int64_t groups = (p.rows + warps * R - 1) / (warps * R);
    const int64_t blocks = std::min<int64_t>(groups, 8 * processors);
    launch_early(few_product<Weight, N, R>,
                 {dim3(unsigned(blocks)), threads, size_t(N * p.tile) * sizeof(float)}, gpu, p);
  };
  rows_per_warp == 2 ? run.template operator()<2>() : run.template operator()<1>();
}

template <class Weight>
void multiply_few(const FewProduct<Weight>& p, const Gpu& gpu) {
  require(p.sequences >= 1 && p.sequences <= most_decoded, "a few sequences are 1 to 8");
  if (p.sequences == 1) return multiply_few<Weight, 1>(p, gpu);
  if (p.sequences == 2) return multiply_few<Weight, 2>(p, gpu);
  if (p.sequences <= 4) return multiply_few<Weight, 4>(p, gpu);
  multiply_few<Weight, 8>(p, gpu);
}

template <class Weight>
struct HeadStep {
  LayerWeights<Weight> weights;
  LayerSizes sizes;
  bool first;                                    // layer
  int64_t rows_of_in, low, memory_at, shift_at;  // of this layer
  DecodeSane sane;
  const DecodeInputs* inputs;
  DecodeActivations activations;
};

// A row of a second factor times the low vector, by the four threads of a row.
template <class Weight>
__device__ float up_dot(const Weight* factor, int64_t channel, int64_t rank, const float* low) {
  constexpr int V = per_load<Weight>;
  const Weight* const row = factor + channel * rank;
  float sum = 0;
  for (int64_t i = (threadIdx.x % 4) * V; i < rank; i += 4 * V) {
    float w[V];
    unpack(*reinterpret_cast<const uint4*>(row + i), w, Weight());
#pragma unroll
    for (int v = 0; v < V; ++v) sum += w[v] * low[i + v];
  }
  return row_sum(sum);
}

template <class Weight>
__device__ void ask_for_rows(const Weight* factor, int64_t first_row, int64_t rank) {
  ask_for(factor + first_row * rank, head_size * rank * int64_t(sizeof(Weight)));
}

__device__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// tau of this head, for all threads; 0 where no chunk ends.
template <class Weight>
__device__ float tau_of(const HeadStep<Weight>& p, int64_t head, int64_t sequence,
                        float* warp_sums) {
  const int64_t position = p.inputs->position[sequence];
  if (p.sane.kind == DecodeSane::Kind::none || (position + 1) % p.sane.chunk != 0) return 0;
  if (p.sane.kind == DecodeSane::Kind::constant) return p.sane.constant;
  const int64_t channels = p.sizes.channels;
  const Weight* const row = p.weights.w_tau + head * channels;
  const float* const x = p.activations.tau + sequence * channels;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < channels; c += head_threads) sum += to_float(row[c]) * x[c];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  float z = 0;
  for (int i = 0; i < head_threads / 32; ++i) z += warp_sums[i];
  return p.sane.alpha * (fmaxf(z, 0.0f) + log1pf(expf(-fabsf(z)))) + 1.0f;
}

// The vectors of a channel, asked for before there is something to do with them.
struct Channel {
  float w0, a0, v0, k_k, k_a, r_k;
  template <class Weight>
  __device__ Channel(const LayerWeights<Weight>& w, int64_t c, bool first)
      : w0(w.w0[c]),
        a0(w.a0[c]),
        v0(first ? 0.0f : w.v0[c]),
        k_k(w.k_k[c]),
        k_a(w.k_a[c]),
        r_k(w.r_k[c]) {}
};

// What the recurrence reads, as kernel::time_mix_inputs; four threads per channel. `gate` and
// `products` (r k r_k) are for what comes after it.
template <class Weight>
__device__ void make_inputs(const HeadStep<Weight>& p, int64_t head, int64_t sequence,
                            const Channel& channel, const float* low, HeadInputs& in, float* gate,
                            float* products) {
  __shared__ float direction[head_size], squares[head_size], rates[head_size];
  const LayerWeights<Weight>& w = p.weights;
  const int64_t channels = p.sizes.channels, rank = p.sizes.rank_wa;
  const bool first = p.first;
  const int own = int(threadIdx.x) / 4;
  const int64_t c = head * head_size + own;
  const float* const low_g = low + 2 * rank + (first ? 0 : p.sizes.rank_v);
  const float raw_w = up_dot(w.up_w, c, rank, low), raw_a = up_dot(w.up_a, c, rank, low + rank);
  const float raw_g = up_dot(w.up_g, c, p.sizes.rank_g, low_g);
  const float raw_v = first ? 0.0f : up_dot(w.up_v, c, p.sizes.rank_v, low + 2 * rank);
  if (threadIdx.x % 4 == 0) {
    const float* const raw = p.activations.in + sequence * p.rows_of_in;
    float& v_first = p.activations.v_first[sequence * channels + c];
    const float r = raw[c], k = raw[channels + c], v = raw[2 * channels + c];
    const float rate = sigmoid_of(channel.a0 + raw_a);
    const float mixed_k = k * (1.0f + (rate - 1.0f) * channel.k_a);
    in.r[own] = r;
    in.w[own] = expf(-0.6065306597f * sigmoid_of(channel.w0 + raw_w));
    in.k[own] = mixed_k;
    if (first) v_first = v;
    in.v[own] = first ? v : v + (v_first - v) * sigmoid_of(channel.v0 + raw_v);
    direction[own] = k * channel.k_k;
    squares[own] = direction[own] * direction[own];
    rates[own] = rate;
    gate[own] = raw_g;
    products[own] = r * mixed_k * channel.r_k;
  }
  __syncthreads();
  const float inverse = 1.0f / fmaxf(sqrtf(head_sum(squares)), 1e-12f);
  if (threadIdx.x < head_size) {
    const float kappa = direction[threadIdx.x] * inverse;
    in.a[threadIdx.x] = -kappa;
    in.b[threadIdx.x] = kappa * rates[threadIdx.x];
  }
  __syncthreads();
}

// A block per (head, sequence).
template <class Weight>
__global__ void __launch_bounds__(head_threads) few_heads(HeadStep<Weight> p) {
  extern __shared__ __align__(16) float low[];
  __shared__ __align__(16) HeadInputs in;
  __shared__ float gate[head_size], products[head_size], read[head_size], about[head_size];
  __shared__ float warp_sums[head_threads / 32];
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channels = p.sizes.channels;
  const int64_t first_channel = head * head_size;
  const bool first = p.first;
  let_next_kernel_start();
  // The state and the weights: nothing before this kernel writes them for this token.
  float* const state = p.inputs->state[sequence];
  float* const memory = state + p.memory_at + head * head_size * head_size;
  HeadRow s;
  s.load(memory);
  const Channel channel(p.weights, first_channel + threadIdx.x / 4, first);
  ask_for_rows(p.weights.up_w, first_channel, p.sizes.rank_wa);
  ask_for_rows(p.weights.up_a, first_channel, p.sizes.rank_wa);
  ask_for_rows(p.weights.up_g, first_channel, p.sizes.rank_g);
  if (!first) ask_for_rows(p.weights.up_v, first_channel, p.sizes.rank_v);
  wait_for_kernel_before();

  const float* const raw = p.activations.in + sequence * p.rows_of_in;
  for (int64_t i = threadIdx.x; i < p.low; i += head_threads) low[i] = raw[3 * channels + i];
  const float tau = tau_of(p, head, sequence, warp_sums);
  __syncthreads();
  make_inputs(p, head, sequence, channel, low, in, gate, products);
  const float y = step_head(s, in, tau);
  s.store(memory);

  if (threadIdx.x % 4 == 0) read[threadIdx.x / 4] = y;
  __syncthreads();
  const float mean = head_sum(read) / head_size;
  if (threadIdx.x < head_size) {
    const float off = read[threadIdx.x] - mean;
    about[threadIdx.x] = off * off;
  }
  __syncthreads();
  const float scale = 1.0f / sqrtf(head_sum(about) / head_size + group_norm_eps);
  const float bonus = head_sum(products);
  if (threadIdx.x >= head_size) return;
  const int64_t c = first_channel + threadIdx.x, at = sequence * channels + c;
  const float normal =
      (read[threadIdx.x] - mean) * scale * p.weights.ln_x_weight[c] + p.weights.ln_x_bias[c];
  p.activations.y[at] = (normal + bonus * in.v[threadIdx.x]) * gate[threadIdx.x];
  state[p.shift_at + c] = p.activations.u[at];
}

template <class Weight>
FewProduct<Weight> product(const Weight* matrix, int64_t rows, int64_t columns, int64_t sequences,
                           const float* x, float* out) {
  FewProduct<Weight> p;
  p.matrix = matrix, p.rows = rows, p.columns = columns, p.sequences = sequences;
  p.x = x, p.out = out;
  return p;
}

template <class Weight>
FewProduct<Weight> mixed_inputs(const LayerWeights<Weight>& w, const LayerSizes& s, int64_t layer,
                                int64_t sequences, const DecodeActivations& act) {
  const bool first = layer == 0;
  auto p = product(w.in, s.rows_of_in(first), s.channels, sequences, act.x, act.in);
  p.segments = 0;
  int64_t row = 0;
  const auto add = [&](const float* mu, int64_t rows, Then then) {
    p.segment[p.segments++] = {row, mu, then};
    row += rows;
  };
  add(w.x_r, s.channels, Then::nothing);
  add(w.x_k, s.channels, Then::nothing);
  add(w.x_v, s.channels, Then::nothing);
  add(w.x_w, s.rank_wa, Then::tanh);
  add(w.x_a, s.rank_wa, Then::nothing);
  if (!first) add(w.x_v, s.rank_v, Then::nothing);
  add(w.x_g, s.rank_g, Then::sigmoid);
  return p;
}

}  // namespace

template <class Weight>
void decode_layer(const LayerWeights<Weight>& w, const LayerSizes& s, int64_t layer,
                  int64_t sequences, const DecodeSane& sane, const DecodeInputs* inputs,
                  const DecodeActivations& act, const Gpu& gpu) {
  const bool first = layer == 0;
  auto in = mixed_inputs(w, s, layer, sequences, act);
  in.norm_weight = w.ln1_weight, in.norm_bias = w.ln1_bias;
  in.inputs = inputs, in.shift_at = s.shift_at(layer, 0);
  in.keep_u = act.u, in.mu_tau = w.x_tau, in.keep_tau = act.tau;
  multiply_few(in, gpu);

  launch_early(few_heads<Weight>,
               {dim3(unsigned(s.heads), unsigned(sequences)), head_threads,
                size_t(s.low(first)) * sizeof(float)},
               gpu,
               HeadStep<Weight>{w, s, first, s.rows_of_in(first), s.low(first), s.memory_at(layer),
                                s.shift_at(layer, 0), sane, inputs, act});

  auto out = product(w.output, s.channels, s.channels, sequences, act.y, act.x);
  out.add = true;
  multiply_few(out, gpu);

  auto key = product(w.ffn_key, s.feed_forward, s.channels, sequences, act.x, act.hidden);
  key.norm_weight = w.ln2_weight, key.norm_bias = w.ln2_bias;
  key.inputs = inputs, key.shift_at = s.shift_at(layer, 1);
  key.segment[0] = {0, w.ffn_x_k, Then::squared_relu};
  key.keep_u = act.u;
  multiply_few(key, gpu);

  auto value = product(w.ffn_value, s.channels, s.feed_forward, sequences, act.hidden, act.x);
  value.add = true;
  value.inputs = inputs, value.shift_at = s.shift_at(layer, 1), value.shift = act.u;
  multiply_few(value, gpu);
}

template <class Weight>
void decode_logits(const Weight* head, const float* norm_weight, const float* norm_bias,
                   int64_t vocabulary, int64_t channels, int64_t sequences, const float* x,
                   float* logits, const Gpu& gpu) {
  auto p = product(head, vocabulary, channels, sequences, x, logits);
  p.norm_weight = norm_weight, p.norm_bias = norm_bias;
  multiply_few(p, gpu);
}

template void decode_layer(const LayerWeights<float>&, const LayerSizes&, int64_t, int64_t,
                           const DecodeSane&, const DecodeInputs*, const DecodeActivations&,
                           const Gpu&);
template void decode_layer(const LayerWeights<bf16>&, const LayerSizes&, int64_t, int64_t,
                           const DecodeSane&, const DecodeInputs*, const DecodeActivations&,
                           const Gpu&);
template void decode_logits(const float*, const float*, const float*, int64_t, int64_t, int64_t,
                            const float*, float*, const Gpu&);
template void decode_logits(const bf16*, const float*, const float*, int64_t, int64_t, int64_t,
                            const float*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
