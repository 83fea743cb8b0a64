#include "model/rwkv7/decode/small_batch.h"

#include "model/rwkv7/decode/head_step.cuh"
#include "model/rwkv7/decode/small_batch_product.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::rwkv7 {
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
  float group_norm_eps;
};

// tau of this head, for all threads; 0 where no chunk ends.
template <class Weight>
__device__ float head_tau(const HeadStep<Weight>& p, int64_t head, int64_t sequence,
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
__global__ void __launch_bounds__(step_threads) head_step(HeadStep<Weight> p) {
  extern __shared__ float4 dynamic_shared[];
  alignas(16) static __shared__ HeadShared place;
  static __shared__ float sums[2][32];
  float* const low = reinterpret_cast<float*>(dynamic_shared);
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channels = p.sizes.channels;
  trigger_dependent_launch();
  // The state and the weights: no kernel in front of this one writes them for this token.
  float* const state = p.inputs->state[sequence];
  float* const memory = state + p.memory_at + head * head_size * head_size;
  HeadPrefetch<Weight, lanes, 0> early;
  early.load(p.weights, p.ranks, head, memory);
  prefetch_up_projections(p.weights, p.sizes, p.ranks.has_v(), head);
  grid_dependency_synchronize();

  const float* const in = p.activations.in + sequence * p.rows_of_in;
  const float* const own = in + head * head_size;
  const HeadRaw raw{own, own + channels, own + 2 * channels};
  for (int i = threadIdx.x; i < p.ranks.low; i += step_threads) low[i] = in[3 * channels + i];
  const float tau = head_tau(p, head, sequence, sums);
  __syncthreads();
  const int64_t at = sequence * channels + head * head_size;
  const auto up = [&] { return up_projection(early, p.weights, p.ranks, head, low); };
  make_inputs(early, p.ranks, raw, up, p.activations.v_first + at, place);
  const float y = finish_head(early, tau, p.group_norm_eps, place);
  early.s.store(memory);
  if (threadIdx.x >= head_size) return;
  p.activations.y[at + threadIdx.x] = y;
  state[p.shift_at + head * head_size + threadIdx.x] = p.activations.u[at + threadIdx.x];
}

template <class Weight>
SmallBatchProduct<Weight> product(const Weight* matrix, int64_t rows, int64_t columns,
                                  int64_t sequences, const float* x, float* out) {
  SmallBatchProduct<Weight> p;
  p.matrix = {matrix, rows, columns}, p.sequences = sequences;
  p.x = x, p.out = out;
  return p;
}

template <class Weight>
SmallBatchProduct<Weight> product_with_mixes(const LayerWeights<Weight>& w, const LayerSizes& s,
                                             int64_t layer, int64_t sequences,
                                             const DecodeActivations& act) {
  const bool first = layer == 0;
  auto p = product(w.in, s.rows_of_in(first), s.channels, sequences, act.x, act.in);
  p.segments = 0;
  int64_t row = 0;
  const auto add = [&](const float* mu, int64_t rows, Epilogue epilogue) {
    p.segment[p.segments++] = {row, mu, epilogue};
    row += rows;
  };
  add(w.x_r, s.channels, Epilogue::none);
  add(w.x_k, s.channels, Epilogue::none);
  add(w.x_v, s.channels, Epilogue::none);
  add(w.x_w, s.rank_wa, Epilogue::tanh);
  add(w.x_a, s.rank_wa, Epilogue::none);
  if (!first) add(w.x_v, s.rank_v, Epilogue::none);
  add(w.x_g, s.rank_g, Epilogue::sigmoid);
  return p;
}

}  // namespace

template <class Weight>
void decode_layer(const LayerWeights<Weight>& w, const LayerSizes& s, const NormEpsilons& eps,
                  int64_t layer, int64_t sequences, const DecodeSane& sane,
                  const DecodeInputs* inputs, const DecodeActivations& act, const Gpu& gpu) {
  const bool first = layer == 0;
  auto in = product_with_mixes(w, s, layer, sequences, act);
  in.norm_weight = w.ln1_weight, in.norm_bias = w.ln1_bias, in.norm_eps = eps.layer;
  in.inputs = inputs, in.shift_at = s.shift_at(layer, 0);
  in.store_u = act.u, in.mu_tau = w.x_tau, in.store_tau = act.tau;
  multiply(in, gpu);

  const HeadRanks ranks(s, first);
  launch_dependent(head_step<Weight>,
               {dim3(unsigned(s.heads), unsigned(sequences)), step_threads,
                size_t(ranks.low) * sizeof(float)},
               gpu,
               HeadStep<Weight>{w, s, ranks, s.rows_of_in(first), s.memory_at(layer),
                                s.shift_at(layer, 0), sane, inputs, act, eps.group});

  auto out = product(w.output, s.channels, s.channels, sequences, act.y, act.x);
  out.add = true;
  multiply(out, gpu);

  auto key = product(w.ffn_key, s.feed_forward, s.channels, sequences, act.x, act.hidden);
  key.norm_weight = w.ln2_weight, key.norm_bias = w.ln2_bias, key.norm_eps = eps.layer;
  key.inputs = inputs, key.shift_at = s.shift_at(layer, 1);
  key.segment[0] = {0, w.ffn_x_k, Epilogue::squared_relu};
  key.store_u = act.u;
  multiply(key, gpu);

  auto value = product(w.ffn_value, s.channels, s.feed_forward, sequences, act.hidden, act.x);
  value.add = true;
  value.inputs = inputs, value.shift_at = s.shift_at(layer, 1), value.shift = act.u;
  multiply(value, gpu);
}

template <class Weight>
void decode_logits(const Weight* head, const float* norm_weight, const float* norm_bias, float eps,
                   int64_t vocabulary, int64_t channels, int64_t sequences, const float* x,
                   float* logits, const Gpu& gpu) {
  auto p = product(head, vocabulary, channels, sequences, x, logits);
  p.norm_weight = norm_weight, p.norm_bias = norm_bias, p.norm_eps = eps;
  multiply(p, gpu);
}

template void decode_layer(const LayerWeights<float>&, const LayerSizes&, const NormEpsilons&,
                           int64_t, int64_t, const DecodeSane&, const DecodeInputs*,
                           const DecodeActivations&, const Gpu&);
template void decode_layer(const LayerWeights<bf16>&, const LayerSizes&, const NormEpsilons&,
                           int64_t, int64_t, const DecodeSane&, const DecodeInputs*,
                           const DecodeActivations&, const Gpu&);
template void decode_logits(const float*, const float*, const float*, float, int64_t, int64_t,
                            int64_t, const float*, float*, const Gpu&);
template void decode_logits(const bf16*, const float*, const float*, float, int64_t, int64_t,
                            int64_t, const float*, float*, const Gpu&);

}  // namespace deltasane::rwkv7
