#include "model/rwkv7_gpu_lane.h"

#include <algorithm>

namespace deltasane {

using namespace kernel::cuda;

namespace {

constexpr float norm_eps = 1e-5f, group_norm_eps = 64e-5f;
constexpr int64_t logits_at_once = int64_t(1) << 26;  // numbers: 256 MiB

}  // namespace

template <class Real>
GpuWorkspace<Real>::GpuWorkspace(const LayerSizes& s, int64_t vocabulary, int64_t rows,
                                 int64_t chunks_at_most, const Gpu& gpu)
    : capacity(rows),
      chunks(chunks_at_most),
      slice(std::clamp<int64_t>(logits_at_once / vocabulary, 1, rows)) {
  const std::string purpose = cat("the activations of ", rows, " tokens");
  for (GpuTensor<float>* t : {&x, &raw_w, &w})
    *t = GpuTensor<float>(gpu, {rows, s.channels}, purpose);
  for (GpuTensor<Real>* t : {&raw_a, &a, &b, &gate, &g, &y, &v_first})
    *t = GpuTensor<Real>(gpu, {rows, s.channels}, purpose);
  mixes = GpuTensor<Real>(gpu, {6, rows, s.channels}, purpose);
  rkv = GpuTensor<Real>(gpu, {3, rows, s.channels}, purpose);
  low = GpuTensor<Real>(gpu, {rows, s.low(false)}, purpose);
  hidden = GpuTensor<Real>(gpu, {rows, s.feed_forward}, purpose);
  x_tau = GpuTensor<Real>(gpu, {chunks, s.channels}, purpose);
  z = GpuTensor<float>(gpu, {chunks, s.heads}, purpose);
  tau = GpuTensor<float>(gpu, {s.layers, chunks, s.heads}, purpose);
  normed = GpuTensor<Real>(gpu, {slice, s.channels}, purpose);
  logits = GpuTensor<float>(gpu, {slice, vocabulary}, purpose);
  loss = GpuTensor<double>(gpu, {rows}, purpose);
  tokens = GpuTensor<int32_t>(gpu, {rows}, purpose);
  targets = GpuTensor<int32_t>(gpu, {rows}, purpose);
}

template <class Real>
GpuLane<Real>::GpuLane(std::shared_ptr<const Gpu> queue, const Rwkv7GpuWeights<Real>& weights,
                       const GpuSane& sane, int64_t vocabulary, int64_t capacity, int64_t chunks)
    : gpu(std::move(queue)),
      ws(weights.sizes, vocabulary, capacity, chunks, *gpu),
      weights_(weights),
      sane_(sane),
      vocabulary_(vocabulary),
      products_(*gpu) {}

template <class Real>
template <class Out>
void GpuLane<Real>::multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns,
                             int64_t inner, bool add) {
  Products::Product<Real, Out> product{Products::Form::nt, rows, columns, inner, a, b, c};
  product.add = add;
  products_.multiply(product);
}

template <class Real>
void GpuLane<Real>::embed(const GpuBlock& block) {
  kernel::cuda::embed(block.rows, ws.tokens.data(), weights_.embedding, weights_.ln0_weight,
                      weights_.ln0_bias, norm_eps, ws.x.data(), *gpu);
}

template <class Real>
void GpuLane<Real>::layer(int64_t index, const GpuBlock& block) {
  time_mix(index, block);
  channel_mix(index, block);
}

template <class Real>
float* GpuLane<Real>::shift(int64_t index, int64_t which, const GpuBlock& block) const {
  return block.shifts + weights_.sizes.shift_at(index, which) * block.rows.sequences;
}

// (sequences, chunks, H), or (sequences, H); null where no chunk ends.
template <class Real>
const float* GpuLane<Real>::taus(int64_t index, const GpuBlock& block) {
  if (sane_.kind == SaneKind::none || block.chunks == 0) return nullptr;
  const LayerSizes& s = weights_.sizes;
  const int64_t count = block.rows.sequences * (block.many() ? 1 : block.chunks);
  float* const tau = ws.tau.data() + index * count * s.heads;
  const bool is_trained = sane_.kind == SaneKind::trained;
  if (is_trained)
    multiply(ws.x_tau.data(), weights_.layers[size_t(index)].w_tau, ws.z.data(), count, s.heads,
             s.channels);
  if (block.alphas) {
    own_taus(index, block, tau);
  } else if (is_trained) {
    thresholds(ws.z.data(), count * s.heads, sane_.alpha, tau, *gpu);
  } else {
    set_constant_taus();
  }
  return tau;
}

template <class Real>
void GpuLane<Real>::set_constant_taus() {
  if (sane_.kind != SaneKind::run_time || has_constant_taus_) return;
  kernel::cuda::fill(ws.tau.data(), ws.tau.elements(), sane_.constant, *gpu);
  has_constant_taus_ = true;
}

// With the alphas of the block's sequences.
template <class Real>
void GpuLane<Real>::own_taus(int64_t index, const GpuBlock& block, float* tau) {
  has_constant_taus_ = false;
  const LayerSizes& s = weights_.sizes;
  const int64_t parts = block.many() ? 1 : block.rows.sequences;
  const int64_t rows = block.many() ? block.rows.sequences : block.chunks;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t at = i * rows * s.heads;
    const float* const z = sane_.kind == SaneKind::trained ? ws.z.data() + at : nullptr;
    thresholds_of_heads(z, rows, s.heads, block.alphas + (i * s.layers + index) * s.heads, tau + at,
                        *gpu);
  }
}

template <class Real>
void GpuLane<Real>::recur(int64_t index, const GpuBlock& block) {
  const LayerSizes& s = weights_.sizes;
  const int64_t numbers = block.rows.rows() * s.channels;
  const Real* const r = ws.rkv.data();
  const Real *const k = r + numbers, *const v = k + numbers;
  const float* const tau = taus(index, block);
  if (block.many()) {
    step_states(StatesStep<Real>{block.states, block.positions, block.rows.sequences, s.heads,
                                 s.memory_at(index), sane_.chunk, r, k, v, ws.a.data(), ws.b.data(),
                                 ws.w.data(), tau, ws.y.data()},
                *gpu);
    return;
  }
  DeltaRule<Real> op;
  op.batch = block.rows.sequences, op.time = block.rows.time, op.heads = s.heads;
  op.position = block.position, op.chunk = sane_.chunk;
  op.r = r, op.k = k, op.v = v, op.a = ws.a.data(), op.b = ws.b.data();
  op.w = ws.w.data(), op.tau = tau;
  op.initial = op.final_state =
      block.memory + (s.memory_at(index) - s.memory_at(0)) * block.rows.sequences;
  op.y = ws.y.data();
  delta_rule(op, scratch_, *gpu);
  if (!block.follow) return;
  FollowHeads follow = *block.follow;
  follow.layer = index, follow.memory = op.final_state;
  follow_heads(follow, *gpu);
}

template <class Real>
void GpuLane<Real>::time_mix(int64_t index, const GpuBlock& block) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const LayerSizes& s = weights_.sizes;
  const bool first = index == 0;
  const int64_t rows = block.rows.rows(), channels = s.channels, numbers = rows * channels;
  const auto mix = [&](int64_t slot) { return ws.mixes.data() + slot * numbers; };
  enum Slot { r, k, v, g, of_w, a };

  NormShift<Real> norm{block.rows, ws.x.data(), w.ln1_weight, w.ln1_bias, norm_eps};
  norm.before = norm.last = shift(index, 0, block);
  norm.mixes = 6;
  const float* const mu[] = {w.x_r, w.x_k, w.x_v, w.x_g, w.x_w, w.x_a};
  for (int i = 0; i < 6; ++i) norm.mu[i] = mu[i], norm.out[i] = mix(i);
  if (w.x_tau && block.chunks > 0) {
    norm.mu_tau = w.x_tau, norm.out_tau = ws.x_tau.data();
    norm.chunk = sane_.chunk, norm.chunks = block.chunks;
    // Of many sequences each token is taken as the end of a chunk; who ends none does not look.
    norm.position = block.many() ? sane_.chunk - 1 : block.position;
  }
  norm_shift(norm, *gpu);

  Products::Product<Real, Real> rkv{Products::Form::nt, rows, channels, channels, mix(r), w.in,
                                    ws.rkv.data()};
  rkv.count = 3, rkv.step_a = rkv.step_c = numbers, rkv.step_b = channels * channels;
  products_.multiply(rkv);
  const int64_t rank = s.rank_wa;
  const Real* down = w.in + 3 * channels * channels;
  Real* low = ws.low.data();
  Products::Product<Real, Real> wa{Products::Form::nt, rows, rank, channels, mix(of_w), down, low};
  wa.count = 2, wa.step_a = numbers, wa.step_b = rank * channels, wa.step_c = rows * rank;
  products_.multiply(wa);
  activate(GpuActivation::tanh, low, rows * rank, *gpu);
  multiply(low, w.up_w, ws.raw_w.data(), rows, channels, rank);
  multiply(low + rows * rank, w.up_a, ws.raw_a.data(), rows, channels, rank);
  down += 2 * rank * channels, low += 2 * rows * rank;
  if (!first) {
    multiply(mix(v), down, low, rows, s.rank_v, channels);
    multiply(low, w.up_v, ws.gate.data(), rows, channels, s.rank_v);
    down += s.rank_v * channels, low += rows * s.rank_v;
  }
  multiply(mix(g), down, low, rows, s.rank_g, channels);
  activate(GpuActivation::sigmoid, low, rows * s.rank_g, *gpu);
  multiply(low, w.up_g, ws.g.data(), rows, channels, s.rank_g);

  Real *const all_k = ws.rkv.data() + numbers, *const all_v = all_k + numbers;
  if (first) copy_on_gpu(ws.v_first.data(), all_v, uint64_t(numbers) * sizeof(Real), *gpu);
  TimeMixInputs<Real> in{};
  in.rows = block.rows;
  in.raw_w = ws.raw_w.data(), in.raw_a = ws.raw_a.data(), in.raw_k = all_k, in.raw_v = all_v;
  in.gate = first ? nullptr : ws.gate.data();
  in.v_first = first ? nullptr : ws.v_first.data();
  in.w0 = w.w0, in.a0 = w.a0, in.v0 = w.v0, in.k_k = w.k_k, in.k_a = w.k_a;
  in.w = ws.w.data(), in.a = ws.a.data(), in.b = ws.b.data(), in.k = all_k, in.v = all_v;
  time_mix_inputs(in, *gpu);
  recur(index, block);
  time_mix_output(
      TimeMixOutput<Real>{block.rows, ws.y.data(), ws.rkv.data(), all_k, all_v, ws.g.data(),
                          w.ln_x_weight, w.ln_x_bias, w.r_k, group_norm_eps, ws.y.data()},
      *gpu);
  multiply(ws.y.data(), w.output, ws.x.data(), rows, channels, channels, true);
}

template <class Real>
void GpuLane<Real>::channel_mix(int64_t index, const GpuBlock& block) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const LayerSizes& s = weights_.sizes;
  const int64_t rows = block.rows.rows();
  NormShift<Real> norm{block.rows, ws.x.data(), w.ln2_weight, w.ln2_bias, norm_eps};
  norm.before = norm.last = shift(index, 1, block);
  norm.mixes = 1, norm.mu[0] = w.ffn_x_k, norm.out[0] = ws.mixes.data();
  norm_shift(norm, *gpu);
  multiply(ws.mixes.data(), w.ffn_key, ws.hidden.data(), rows, s.feed_forward, s.channels);
  activate(GpuActivation::squared_relu, ws.hidden.data(), rows * s.feed_forward, *gpu);
  multiply(ws.hidden.data(), w.ffn_value, ws.x.data(), rows, s.channels, s.feed_forward, true);
}

template <class Real>
void GpuLane<Real>::logits(int64_t from, int64_t count) {
  const int64_t channels = weights_.sizes.channels;
  layer_norm(RowBlock{1, count, channels}, ws.x.data() + from * channels, weights_.ln_out_weight,
             weights_.ln_out_bias, norm_eps, ws.normed.data(), *gpu);
  multiply(ws.normed.data(), weights_.head, ws.logits.data(), count, vocabulary_, channels);
}

template struct GpuWorkspace<float>;
template struct GpuWorkspace<bf16>;
template class GpuLane<float>;
template class GpuLane<bf16>;

}  // namespace deltasane
