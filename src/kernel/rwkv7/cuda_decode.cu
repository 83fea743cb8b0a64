#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_few_product.cuh"
#include "kernel/rwkv7/cuda_head_step.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int lanes = 4, step_threads = head_threads<lanes>;

template <class Weight>
struct HeadStep {
  LayerWeights<Weight> weights;
  LayerSizes sizes;
  HeadRanks ranks;
  int64_t rows_of_in, memory_at, shift_at;  // of this layer
  DecodeSane sane;
  const DecodeInputs* inputs;
  DecodeActivations activations;
};

// tau of this head, for all threads; 0 where no chunk ends.
template <class Weight>
__device__ float tau_of(const HeadStep<Weight>& p, int64_t head, int64_t sequence,
                        float (*sums)[32]) {
  if (!ends_chunk(p.sane, p.inputs->position[sequence])) return 0;
  if (p.sane.kind == DecodeSane::Kind::constant) return p.sane.constant;
  const int64_t channels = p.sizes.channels;
  const Weight* const row = p.weights.w_tau + head * channels;
  const float* const x = p.activations.tau + sequence * channels;
  float z[1] = {};
  for (int64_t c = threadIdx.x; c < channels; c += step_threads) z[0] += to_float(row[c]) * x[c];
  BlockSums<1>{sums}(z);
  return trained_tau(p.sane, z[0]);
}

// A block per (head, sequence).
template <class Weight>
__global__ void __launch_bounds__(step_threads) few_heads(HeadStep<Weight> p) {
  extern __shared__ __align__(16) float low[];
  __shared__ __align__(16) HeadPlace place;
  __shared__ float sums[2][32];
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channels = p.sizes.channels;
  let_next_kernel_start();
  // The state and the weights: nothing before this kernel writes them for this token.
  float* const state = p.inputs->state[sequence];
  float* const memory = state + p.memory_at + head * head_size * head_size;
  HeadEarly<Weight, lanes, 0> early;
  early.load(p.weights, p.ranks, head, memory);
  ask_for_factors(p.weights, p.sizes, p.ranks.has_v(), head);
  wait_for_kernel_before();

  const float* const in = p.activations.in + sequence * p.rows_of_in;
  const float* const own = in + head * head_size;
  const HeadRaw raw{own, own + channels, own + 2 * channels};
  for (int i = threadIdx.x; i < p.ranks.low; i += step_threads) low[i] = in[3 * channels + i];
  const float tau = tau_of(p, head, sequence, sums);
  __syncthreads();
  const int64_t at = sequence * channels + head * head_size;
  const auto second = [&] { return second_factors(early, p.weights, p.ranks, head, low); };
  make_inputs(early, p.ranks, raw, second, p.activations.v_first + at, place);
  const float y = finish_head(early, tau, place);
  early.s.store(memory);
  if (threadIdx.x >= head_size) return;
  p.activations.y[at + threadIdx.x] = y;
  state[p.shift_at + head * head_size + threadIdx.x] = p.activations.u[at + threadIdx.x];
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

  const HeadRanks ranks(s, first);
  launch_early(few_heads<Weight>,
               {dim3(unsigned(s.heads), unsigned(sequences)), step_threads,
                size_t(ranks.low) * sizeof(float)},
               gpu,
               HeadStep<Weight>{w, s, ranks, s.rows_of_in(first), s.memory_at(layer),
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
