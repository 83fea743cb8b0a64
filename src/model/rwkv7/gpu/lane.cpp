#include "model/rwkv7/gpu/lane.h"

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
                       const GpuSane& sane, int64_t vocabulary, int64_t capacity, int64_t chunks,
                       Branches branches)
    : gpu(std::move(queue)),
      ws(weights.sizes, vocabulary, capacity, chunks, *gpu),
      weights_(weights),
      sane_(sane),
      vocabulary_(vocabulary),
      main_(gpu, Products::full_workspace) {
  constexpr int of_low_ranks = 4;  // w a v g
  for (int i = 0; branches == Branches::beside && i < of_low_ranks; ++i)
    branches_.emplace_back(std::make_shared<const Gpu>(gpu->index()), uint64_t{8} << 20);
}

template <class Real, class Out>
void GpuLine::multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns,
                       int64_t inner, bool add) {
  Products::Product<Real, Out> product{Products::Form::nt, rows, columns, inner, a, b, c};
  product.add = add;
  products.multiply(product);
}

void GpuLine::follow(GpuLine& other) {
  if (this == &other) return;
  other.done.record(*other.gpu);
  other.done.let_wait(gpu->stream());
}

template <class Real>
GpuLine& GpuLane<Real>::branch(int which) {
  return branches_.empty() ? main_ : branches_[size_t(which)];
}
// Branches begin after what was asked for in the lane's own queue ..
template <class Real>
void GpuLane<Real>::part_ways() {
  for (GpuLine& line : branches_) line.follow(main_);
}
// .. which goes on after all of them.
template <class Real>
void GpuLane<Real>::meet() {
  for (GpuLine& line : branches_) main_.follow(line);
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

// (sequences, chunks, H), or (sequences, H); null where no chunk ends.
template <class Real>
const float* GpuLane<Real>::taus(int64_t index, const GpuBlock& block, GpuLine& line) {
  if (sane_.kind == SaneKind::none || block.chunks == 0) return nullptr;
  const LayerSizes& s = weights_.sizes;
  const int64_t count = block.rows.sequences * (block.many() ? 1 : block.chunks);
  float* const tau = ws.tau.data() + index * count * s.heads;
  const bool is_trained = sane_.kind == SaneKind::trained;
  if (is_trained)
    line.multiply(ws.x_tau.data(), weights_.layers[size_t(index)].w_tau, ws.z.data(), count,
                  s.heads, s.channels);
  if (block.alphas) {
    own_taus(index, block, tau, *line.gpu);
  } else if (is_trained) {
    thresholds(ws.z.data(), count * s.heads, sane_.alpha, tau, *line.gpu);
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
void GpuLane<Real>::own_taus(int64_t index, const GpuBlock& block, float* tau, const Gpu& queue) {
  has_constant_taus_ = false;
  const LayerSizes& s = weights_.sizes;
  const int64_t parts = block.many() ? 1 : block.rows.sequences;
  const int64_t rows = block.many() ? block.rows.sequences : block.chunks;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t at = i * rows * s.heads;
    const float* const z = sane_.kind == SaneKind::trained ? ws.z.data() + at : nullptr;
    thresholds_of_heads(z, rows, s.heads, block.alphas + (i * s.layers + index) * s.heads, tau + at,
                        queue);
  }
}

template <class Real>
void GpuLane<Real>::shift_and_mix(int64_t index, Mix which, const GpuBlock& block) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const LayerSizes& s = weights_.sizes;
  const bool of_time = which == Mix::time;
  const float* const weight = of_time ? w.ln1_weight : w.ln2_weight;
  const float* const bias = of_time ? w.ln1_bias : w.ln2_bias;
  const float* const mu_tau = of_time && block.chunks > 0 ? w.x_tau : nullptr;
  const int64_t shift_at = s.shift_at(index, of_time ? 0 : 1);
  const auto set_mixes = [&](auto& op) {
    const float* const mu[] = {of_time ? w.x_r : w.ffn_x_k, w.x_k, w.x_v, w.x_g, w.x_w, w.x_a};
    for (op.mixes = 0; op.mixes < (of_time ? 6 : 1); ++op.mixes)
      op.mu[op.mixes] = mu[op.mixes], op.out[op.mixes] = mixed(op.mixes, block);
  };
  if (block.many()) {
    ShiftStates<Real> op{block.states, block.rows.rows(), s.channels, shift_at, ws.x.data(), weight,
                         bias,         norm_eps};
    set_mixes(op);
    if (mu_tau) op.mu[op.mixes] = mu_tau, op.out[op.mixes++] = ws.x_tau.data();
    return shift_states(op, *gpu);
  }
  NormShift<Real> op{block.rows, ws.x.data(), weight, bias, norm_eps};
  op.before = op.last = block.shifts + shift_at * block.rows.sequences;
  set_mixes(op);
  if (mu_tau) {
    op.mu_tau = mu_tau, op.out_tau = ws.x_tau.data();
    op.position = block.position, op.chunk = sane_.chunk, op.chunks = block.chunks;
  }
  norm_shift(op, *gpu);
}

// Whether tokens are so few that heads of each may read the second factors (docs/gpu-kernels.md).
template <class Real>
bool GpuLane<Real>::heads_multiply(const GpuBlock& block) const {
  return block.many() && block.rows.rows() <= 32 &&
         weights_.sizes.low(false) <= StepHeads<Real>::most_low;
}

template <class Real>
Real* GpuLane<Real>::mixed(int64_t slot, const GpuBlock& block) {
  return ws.mixes.data() + slot * block.rows.rows() * weights_.sizes.channels;
}

// The products that read the mixes, and what second factors make of them.
template <class Real>
void GpuLane<Real>::multiply_mixes(int64_t index, const GpuBlock& block) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const LayerSizes& s = weights_.sizes;
  const int64_t rows = block.rows.rows(), channels = s.channels, numbers = rows * channels;
  const bool second = !heads_multiply(block);
  enum Slot { r, k, v, g, of_w, of_a };
  const auto mix = [&](Slot slot) { return mixed(slot, block); };

  Products::Product<Real, Real> rkv{Products::Form::nt, rows, channels, channels, mix(r), w.in,
                                    ws.rkv.data()};
  rkv.count = 3, rkv.step_a = rkv.step_c = numbers, rkv.step_b = channels * channels;
  main_.products.multiply(rkv);

  const int64_t rank = s.rank_wa;
  const Real* down = w.in + 3 * channels * channels;
  Real* low = ws.low.data();
  GpuLine &line_w = branch(0), &line_a = branch(1), &line_v = branch(2), &line_g = branch(3);
  Products::Product<Real, Real> wa{Products::Form::nt, rows, rank, channels, mix(of_w), down, low};
  wa.count = 2, wa.step_a = numbers, wa.step_b = rank * channels, wa.step_c = rows * rank;
  line_w.products.multiply(wa);
  if (second) {
    line_a.follow(line_w);
    activate(GpuActivation::tanh, low, rows * rank, *line_w.gpu);
    line_w.multiply(low, w.up_w, ws.raw_w.data(), rows, channels, rank);
    line_a.multiply(low + rows * rank, w.up_a, ws.raw_a.data(), rows, channels, rank);
  }
  down += 2 * rank * channels, low += 2 * rows * rank;
  if (index > 0) {
    line_v.multiply(mix(v), down, low, rows, s.rank_v, channels);
    if (second) line_v.multiply(low, w.up_v, ws.gate.data(), rows, channels, s.rank_v);
    down += s.rank_v * channels, low += rows * s.rank_v;
  }
  line_g.multiply(mix(g), down, low, rows, s.rank_g, channels);
  if (second) {
    activate(GpuActivation::sigmoid, low, rows * s.rank_g, *line_g.gpu);
    line_g.multiply(low, w.up_g, ws.g.data(), rows, channels, s.rank_g);
  }
}

template <class Real>
void GpuLane<Real>::step(int64_t index, const GpuBlock& block, const float* tau) {
  step_heads(StepHeads<Real>{block.states, block.positions, block.rows.sequences,
                             weights_.layers[size_t(index)], weights_.sizes, index, sane_.chunk,
                             ws.rkv.data(), ws.low.data(), ws.v_first.data(), tau, ws.y.data()},
             *gpu);
}

template <class Real>
void GpuLane<Real>::recur(int64_t index, const GpuBlock& block, const float* tau) {
  const LayerSizes& s = weights_.sizes;
  const int64_t numbers = block.rows.rows() * s.channels;
  const Real* const r = ws.rkv.data();
  const Real *const k = r + numbers, *const v = k + numbers;
  if (block.many()) {
    step_states(StepStates<Real>{block.states, block.positions, block.rows.sequences, s.heads,
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

// The same in three parts.
template <class Real>
void GpuLane<Real>::recur_in_parts(int64_t index, const GpuBlock& block, const float* tau) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const bool first = index == 0;
  const int64_t numbers = block.rows.rows() * weights_.sizes.channels;
  Real *const r = ws.rkv.data(), *const k = r + numbers, *const v = k + numbers;
  if (first) copy_on_gpu(ws.v_first.data(), v, uint64_t(numbers) * sizeof(Real), *gpu);
  TimeMixInputs<Real> in{};
  in.rows = block.rows;
  in.raw_w = ws.raw_w.data(), in.raw_a = ws.raw_a.data(), in.raw_k = k, in.raw_v = v;
  in.gate = first ? nullptr : ws.gate.data();
  in.v_first = first ? nullptr : ws.v_first.data();
  in.w0 = w.w0, in.a0 = w.a0, in.v0 = w.v0, in.k_k = w.k_k, in.k_a = w.k_a;
  in.w = ws.w.data(), in.a = ws.a.data(), in.b = ws.b.data(), in.k = k, in.v = v;
  time_mix_inputs(in, *gpu);
  recur(index, block, tau);
  time_mix_output(TimeMixOutput<Real>{block.rows, ws.y.data(), r, k, v, ws.g.data(), w.ln_x_weight,
                                      w.ln_x_bias, w.r_k, group_norm_eps, ws.y.data()},
                  *gpu);
}

template <class Real>
void GpuLane<Real>::time_mix(int64_t index, const GpuBlock& block) {
  const int64_t channels = weights_.sizes.channels;
  shift_and_mix(index, Mix::time, block);
  part_ways();
  multiply_mixes(index, block);
  const float* const tau = taus(index, block, branch(2));
  meet();
  if (heads_multiply(block))
    step(index, block, tau);
  else
    recur_in_parts(index, block, tau);
  main_.multiply(ws.y.data(), weights_.layers[size_t(index)].output, ws.x.data(), block.rows.rows(),
                 channels, channels, true);
}

template <class Real>
void GpuLane<Real>::channel_mix(int64_t index, const GpuBlock& block) {
  const LayerWeights<Real>& w = weights_.layers[size_t(index)];
  const LayerSizes& s = weights_.sizes;
  const int64_t rows = block.rows.rows();
  shift_and_mix(index, Mix::channel, block);
  main_.multiply(ws.mixes.data(), w.ffn_key, ws.hidden.data(), rows, s.feed_forward, s.channels);
  activate(GpuActivation::squared_relu, ws.hidden.data(), rows * s.feed_forward, *gpu);
  main_.multiply(ws.hidden.data(), w.ffn_value, ws.x.data(), rows, s.channels, s.feed_forward,
                 true);
}

template <class Real>
void GpuLane<Real>::logits(int64_t from, int64_t count) {
  const int64_t channels = weights_.sizes.channels;
  layer_norm(RowBlock{1, count, channels}, ws.x.data() + from * channels, weights_.ln_out_weight,
             weights_.ln_out_bias, norm_eps, ws.normed.data(), *gpu);
  main_.multiply(ws.normed.data(), weights_.head, ws.logits.data(), count, vocabulary_, channels);
}

template struct GpuWorkspace<float>;
template struct GpuWorkspace<bf16>;
template class GpuLane<float>;
template class GpuLane<bf16>;

}  // namespace deltasane
