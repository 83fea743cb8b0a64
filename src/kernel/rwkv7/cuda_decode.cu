#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_few_product.cuh"
#include "kernel/rwkv7/cuda_head.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr float group_norm_eps = 64e-5f;

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
