// The steps of block.h on the CPU.
#include <cmath>

#include "kernel/activation/activation.h"
#include "kernel/attention/attention.h"
#include "kernel/decay/decay.h"
#include "kernel/delta_rule/delta_rule.h"
#include "kernel/experts/experts.h"
#include "kernel/norm/rms.h"
#include "kernel/rope/rope.h"
#include "kernel/rows/add_rows.h"
#include "kernel/sane/tau.h"
#include "kernel/short_conv/short_conv.h"
#include "model/gated_delta/block.h"
#include "model/gated_delta/heads.h"
#include "model/gated_delta/scratch.h"
#include "model/state/cache_window.h"

namespace deltasane::gated_delta {

using kernel::Cpu;
using kernel::GateActivation;
using kernel::Matmul;
using kernel::Store;

namespace {

// (time, heads * size) of one sequence as (1, time, head, size)
template <class T>
View<T> as_batch(const View<T>& rows, int64_t size) {
  return {rows.data,
          {1, rows.shape[0], rows.shape[1] / size, size},
          {rows.shape[0] * rows.stride[0], rows.stride[0], size, 1}};
}

}  // namespace

class Model::Block {
 public:
  Block(const Model& model, const ForwardPass& pass, Scratch& scratch, const Cpu& cpu,
        int64_t index)
      : model_(model),
        c(model.config()),
        pass_(pass),
        s(scratch),
        cpu_(cpu),
        index_(index),
        w(model.layers_[size_t(index)]) {}

  Mixer mixer() const { return w.mixer; }
  bool has_experts() const { return w.experts.has_value(); }
  void norm_before_mixer() { norm_before(w.mixer_norm); }
  void norm_before_ffn() { norm_before(w.ffn_norm); }
  void project_recurrent();
  void tau();
  void convolve();
  void decay_and_beta();
  void recurrence();
  void gated_output_norm();
  void project_attention();
  void normalize_queries_and_keys();
  void rotate();
  void append_to_cache();
  void attend();
  void gate_attention();
  void project_latent();
  void append_latent();
  void attend_latent();
  void add_mixer_output();
  void add_experts();
  void add_network();

 private:
  // h: the input of a half of the layer.
  void norm_before(const Vector& weight) {
    if (w.norms_after)
      h_ = s.x;
    else
      h_ = s.h, rms(s.x, weight, c.channels, c.norm_eps, s.h);
  }
  void rms(const View<float>& x, const Vector& weight, int64_t size, double eps,
           const View<float>& y) const {
    kernel::rms_norm({x, size, weight.data(), float(eps), y}, cpu_);
  }
  // x += W y, with a norm where it comes after.
  void add_product(const kernel::Weights& matrix, const View<float>& y, const Vector& norm) {
    if (!w.norms_after) return kernel::matmul(matrix, y, s.x, cpu_, Store::add);
    kernel::matmul(matrix, y, s.h, cpu_);
    rms(s.h, norm, c.channels, c.norm_eps, s.h);
    kernel::add_rows(s.h, s.x, cpu_);
  }
  size_t sequences() const { return pass_.states.size(); }
  SequenceState& state(size_t sequence) const { return *pass_.states[sequence]; }
  View<float> of(size_t sequence, const View<float>& all) const {
    return all.slice(0, int64_t(sequence) * pass_.time, pass_.time);
  }
  // Calls body(sequence, cpu): one sequence with all threads, or each with one.
  template <class Body>
  void each_sequence(const Body& body) const {
    if (sequences() == 1) return body(size_t(0), cpu_);
    cpu_.threads.parallel(int64_t(sequences()), [&](int64_t sequence) {
      ThreadPool alone(1);
      body(size_t(sequence), Cpu{alone, cpu_.isa});
    });
  }
  Tensor<float> tau_of(size_t sequence) const;
  void append(size_t sequence, std::initializer_list<View<float>> parts) const;

  const Model& model_;
  const Config& c;
  const ForwardPass& pass_;
  Scratch& s;
  const Cpu& cpu_;
  const int64_t index_;
  const LayerWeights& w;
  View<float> h_, mixed_;  // of this layer's mixer: what its output matrix reads
  std::vector<Tensor<float>> tau_;  // of each sequence: (1, chunks, head)
};

void Model::Block::project_recurrent() {
  const RecurrentWeights& r = w.recurrent;
  std::vector<Matmul> first{{*r.qkv, h_, s.qkv}}, second;
  if (r.beta) first.push_back({*r.beta, h_, s.beta});
  if (r.decay) first.push_back({*r.decay, h_, s.decay});
  if (r.gate) first.push_back({*r.gate, h_, s.gate});
  if (r.decay_down) {
    first.push_back({*r.decay_down, h_, s.decay_low});
    second.push_back({*r.decay_up, s.decay_low, s.decay});
  }
  if (r.gate_down) {
    first.push_back({*r.gate_down, h_, s.gate_low});
    second.push_back({*r.gate_up, s.gate_low, s.gate});
  }
  kernel::matmul_all(first, cpu_);
  if (!second.empty()) kernel::matmul_all(second, cpu_);
  for (int64_t row = 0; row < s.gate.shape[0] && r.gate_bias.elements(); ++row)
    for (int64_t i = 0; i < r.gate_bias.elements(); ++i) s.gate.at(row)[i] += r.gate_bias[i];
}

// From h of the tokens that end a chunk.
void Model::Block::tau() {
  if (model_.sane().kind == SaneKind::none) return;
  for (size_t i = 0; i < sequences(); ++i) tau_.push_back(tau_of(i));
  if (pass_.taus) pass_.taus->add(index_, tau_[0].span());
}

Tensor<float> Model::Block::tau_of(size_t sequence) const {
  const SaneUse& sane = model_.sane();
  const SequenceState& state = *pass_.states[sequence];
  const int64_t chunks = kernel::chunks_ending(state.position, pass_.time, sane.chunk);
  Tensor<float> tau({1, chunks, c.value_heads});
  if (chunks == 0) return tau;
  std::span<const float> z;
  if (sane.kind == SaneKind::trained) {
    const View<float> rows = of(sequence, h_);
    const int64_t first = sane.chunk - 1 - state.position % sane.chunk;
    const View<const float> ends{
        rows.at(first), {chunks, c.channels}, {sane.chunk * rows.stride[0], 1}};
    kernel::matmul_few_alike(*w.recurrent.w_tau, ends, {tau.data(), {chunks, c.value_heads}}, cpu_);
    z = tau.span();
  }
  if (state.alphas.empty()) {
    kernel::tau_forward(z, sane.alpha, tau.span());
  } else {
    const auto [begin, count] = state.layout().heads_of(index_);
    kernel::tau_forward_per_head(
        z, std::span(state.alphas).subspan(size_t(begin), size_t(count)), tau.span());
  }
  return tau;
}

void Model::Block::convolve() {
  for (size_t i = 0; i < sequences(); ++i)
    kernel::short_conv({of(i, s.qkv), std::max<int64_t>(1, c.taps), w.recurrent.convolution.data(),
                        w.inputs ? state(i).mutable_of(*w.inputs).data() : nullptr,
                        of(i, s.convolved)},
                       cpu_);
  const int64_t keys = c.key_channels();
  const auto scale = float(1 / std::sqrt(double(c.key_size)));
  kernel::l2_norm(s.convolved.slice(1, 0, keys), c.key_size, l2_eps, scale, cpu_);
  kernel::l2_norm(s.convolved.slice(1, keys, keys), c.key_size, l2_eps, 1, cpu_);
}

void Model::Block::decay_and_beta() {
  const RecurrentWeights& r = w.recurrent;
  if (c.decays()) {
    kernel::Decay op{s.decay, c.value_heads, r.decay_rate.data(), r.decay_bias.data()};
    if (c.decay_bound != 0) op.bound = float(c.decay_bound);
    kernel::decay(op, cpu_);
  }
  if (r.beta) kernel::activate(kernel::Activation::sigmoid, s.beta, cpu_);
  const auto scale = float(c.beta_scale);
  for (int64_t row = 0; row < s.beta.shape[0]; ++row)
    for (int64_t h = 0; h < c.value_heads; ++h)
      s.beta(row, h) = r.beta ? scale * s.beta(row, h) : 1;
}

void Model::Block::recurrence() {
  const int64_t keys = c.key_channels();
  for (size_t i = 0; i < sequences(); ++i) state(i).mutable_fixed();  // allocated by one thread
  each_sequence([&](size_t i, const Cpu& cpu) {
    const View<float> rows = of(i, s.convolved);
    kernel::DeltaRule<float> op;
    op.rule = c.rule;
    op.r = as_batch(rows.slice(1, 0, keys), c.key_size);
    op.k = as_batch(rows.slice(1, keys, keys), c.key_size);
    op.v = as_batch(rows.slice(1, 2 * keys, c.value_channels()), c.value_size);
    if (c.rule == kernel::Rule::kda) op.w = as_batch(of(i, s.decay), c.key_size);
    if (c.rule == kernel::Rule::gated_deltanet)
      op.w = {of(i, s.decay).data, {1, pass_.time, c.value_heads}};
    op.beta = {of(i, s.beta).data, {1, pass_.time, c.value_heads}};
    if (!tau_.empty()) op.chunk = model_.sane().chunk;
    if (!tau_.empty() && tau_[i].elements()) op.tau = tau_[i].view();
    op.position = {&state(i).position, {1}};
    op.final_state = {state(i).mutable_of(*w.memory).data(),
                      {1, c.value_heads, c.value_size, c.key_size}};
    op.initial = op.final_state;
    op.y = as_batch(of(i, s.y), c.value_size);
    kernel::delta_rule(op, cpu);
  });
}

void Model::Block::gated_output_norm() {
  kernel::RmsNorm op{s.y, c.value_size, w.recurrent.output_norm.data(), float(c.output_norm_eps),
                     s.y};
  if (c.gate != OutputGate::none) op.gate = s.gate;
  op.activation = c.gate == OutputGate::silu ? GateActivation::silu : GateActivation::sigmoid;
  kernel::rms_norm(op, cpu_);
  mixed_ = s.y;
}

void Model::Block::project_attention() {
  const AttentionWeights& a = w.attention;
  std::vector<Matmul> all{{*a.q, h_, s.q}, {*a.k, h_, s.k}, {*a.v, h_, s.v}};
  if (a.gate) all.push_back({*a.gate, h_, s.attention_gate});
  kernel::matmul_all(all, cpu_);
}

void Model::Block::normalize_queries_and_keys() {
  if (c.qk_norm == QkNorm::none) return;
  const bool row = c.qk_norm == QkNorm::row;
  rms(s.q, w.attention.q_norm, row ? s.q.shape[1] : c.head_size, c.norm_eps, s.q);
  rms(s.k, w.attention.k_norm, row ? s.k.shape[1] : c.head_size, c.norm_eps, s.k);
}

void Model::Block::rotate() {
  if (c.rotary == 0) return;
  for (size_t i = 0; i < sequences(); ++i)
    for (const View<float>& x : {of(i, s.q), of(i, s.k)})
      kernel::rope({by_head(x, c.head_size), state(i).position, c.rotary, c.theta}, cpu_);
}

// A row for each token: the parts' rows, one after another.
void Model::Block::append(size_t sequence, std::initializer_list<View<float>> parts) const {
  std::vector<float>& cache = state(sequence).mutable_cache(w.cache->offset);
  for (int64_t t = 0; t < pass_.time; ++t)
    for (const View<float>& part : parts)
      cache.insert(cache.end(), part.at(t), part.at(t) + part.shape[1]);
}

void Model::Block::append_to_cache() {
  for (size_t i = 0; i < sequences(); ++i) append(i, {of(i, s.k), of(i, s.v)});
}

void Model::Block::attend() {
  const int64_t row = w.cache->floats(), width = row / 2;
  each_sequence([&](size_t i, const Cpu& cpu) {
    const std::span<const float> cache = state(i).cache(w.cache->offset);
    const Shape shape{int64_t(cache.size()) / row, c.kv_heads, c.head_size};
    const Shape stride{row, c.head_size, 1};
    kernel::attention({by_head(View<const float>(of(i, s.q)), c.head_size),
                       {cache.data(), shape, stride},
                       {cache.data() + width, shape, stride},
                       float(1 / std::sqrt(double(c.head_size))),
                       c.window,
                       c.kept,
                       by_head(of(i, s.attended), c.head_size)},
                      cpu);
  });
}

void Model::Block::gate_attention() {
  if (c.attention_gate)
    kernel::multiply_by_gate(GateActivation::sigmoid, s.attention_gate, s.attended, s.attended,
                             cpu_);
  mixed_ = s.attended;
}

void Model::Block::project_latent() {
  const LatentWeights& l = w.latent;
  const Matmul both[] = {{*l.q, h_, s.q}, {*l.kv_down, h_, s.k}};
  kernel::matmul_all(both, cpu_);
  const View<float> latent = s.k.slice(1, 0, c.latent_size);
  rms(latent, l.kv_norm, c.latent_size, c.latent_norm_eps, latent);
  // [k_up' q | the part of q for the shared key] of each head
  const int64_t from = c.latent_key_size + c.shared_key_size;
  const int64_t to = c.latent_size + c.shared_key_size;
  std::vector<Matmul> absorbed;
  for (int64_t h = 0; h < c.heads; ++h) {
    absorbed.push_back({l.k_up[size_t(h)], s.q.slice(1, h * from, c.latent_key_size),
                        s.latent_q.slice(1, h * to, c.latent_size)});
    for (int64_t row = 0; row < s.q.shape[0]; ++row)
      std::copy_n(s.q.at(row, h * from + c.latent_key_size), c.shared_key_size,
                  s.latent_q.at(row, h * to + c.latent_size));
  }
  kernel::matmul_all(absorbed, cpu_);
}

void Model::Block::append_latent() {
  for (size_t i = 0; i < sequences(); ++i) append(i, {of(i, s.k)});
}

void Model::Block::attend_latent() {
  const int64_t row = w.cache->floats();
  const double scale = 1 / std::sqrt(double(c.latent_key_size + c.shared_key_size));
  each_sequence([&](size_t i, const Cpu& cpu) {
    const std::span<const float> cache = state(i).cache(w.cache->offset);
    const int64_t rows = int64_t(cache.size()) / row;
    kernel::attention({by_head(View<const float>(of(i, s.latent_q)), row),
                       {cache.data(), {rows, 1, row}},
                       {cache.data(), {rows, 1, c.latent_size}, {row, row, 1}},
                       float(scale),
                       c.window,
                       c.kept,
                       by_head(of(i, s.latent_read), c.latent_size)},
                      cpu);
  });
  std::vector<Matmul> values;
  for (int64_t h = 0; h < c.heads; ++h)
    values.push_back({w.latent.v_up[size_t(h)],
                      s.latent_read.slice(1, h * c.latent_size, c.latent_size),
                      s.attended.slice(1, h * c.latent_value_size, c.latent_value_size)});
  kernel::matmul_all(values, cpu_);
  mixed_ = s.attended;
}

void Model::Block::add_mixer_output() {
  const Matrix& output = w.mixer == Mixer::recurrent   ? w.recurrent.output
                         : w.mixer == Mixer::attention ? w.attention.output
                                                       : w.latent.output;
  add_product(*output, mixed_, w.mixer_norm);
}

void Model::Block::add_network() {
  const Matmul both[] = {{*w.ffn.gate, h_, s.hidden}, {*w.ffn.up, h_, s.up}};
  kernel::matmul_all(both, cpu_);
  kernel::multiply_by_gate(GateActivation::silu, s.hidden, s.up, s.hidden, cpu_);
  add_product(*w.ffn.down, s.hidden, w.ffn_norm);
}

void Model::Block::add_experts() {
  const ExpertWeights& e = *w.experts;
  const kernel::Router router{
      c.sigmoid_router ? kernel::RouterScore::sigmoid : kernel::RouterScore::softmax,
      c.experts_used, c.renormalize, float(c.expert_scale),
      c.sigmoid_router ? e.router_bias.data() : nullptr};
  std::vector<Matmul> first{{*e.router, h_, s.router}};
  if (e.shared.gate) {
    first.push_back({*e.shared.gate, h_, s.shared_hidden});
    first.push_back({*e.shared.up, h_, s.shared_up});
  }
  if (e.shared_gate) first.push_back({*e.shared_gate, h_, s.shared_gate});
  kernel::matmul_all(first, cpu_);
  std::vector<kernel::Choice> chosen(size_t(s.x.shape[0] * c.experts_used));
  kernel::route(router, s.router, chosen, cpu_);
  kernel::add_experts({h_, chosen, e.gate, e.up, e.down, s.x}, cpu_);
  if (!e.shared.gate) return;
  kernel::multiply_by_gate(GateActivation::silu, s.shared_hidden, s.shared_up, s.shared_hidden,
                           cpu_);
  if (e.shared_gate) {
    kernel::activate(kernel::Activation::sigmoid, s.shared_gate, cpu_);
    for (int64_t row = 0; row < s.shared_hidden.shape[0]; ++row)
      for (int64_t i = 0; i < c.shared_expert_size; ++i)
        s.shared_hidden(row, i) *= s.shared_gate(row, 0);
  }
  kernel::matmul(*e.shared.down, s.shared_hidden, s.x, cpu_, Store::add);
}

void Model::run_pass(const ForwardPass& pass, const Cpu& cpu) const {
  const auto rows = int64_t(pass.tokens.size());
  if (rows == 0) return;
  for (const SequenceState* const state : pass.states) expect_caches(*state);
  Scratch s(config(), rows);
  embedding_.read(pass.tokens, s.x);
  // random rows of a long input bring in most of the file
  if (rows > kernel::matmul_few_tokens) checkpoint_.file().drop_pages();
  for (int64_t layer = 0; layer < config().layers(); ++layer) {
    Block block(*this, pass, s, cpu, layer);
    block_forward(block);
  }
  for (SequenceState* const state : pass.states) {
    state->position += pass.time;
    drop_rows(*state, state->position - pass.time);
  }
  if (pass.wanted == Logits::none) return;
  const int64_t count = pass.wanted == Logits::last ? 1 : rows;
  const View<float> last = s.x.slice(0, rows - count, count), normal = s.h.slice(0, 0, count);
  kernel::rms_norm({last, config().channels, norm_.data(), float(config().norm_eps), normal}, cpu);
  kernel::matmul(*head_, normal, pass.logits, cpu);
}

int64_t Model::cached_tokens(int64_t position) const {
  return drops_rows_ ? position - dropped_rows(position, config_.window) : position;
}

void Model::expect_caches(const SequenceState& state) const {
  expect_cached_rows(state, drops_rows_ ? dropped_rows(state.position, config_.window) : 0);
}

void Model::drop_rows(SequenceState& state, int64_t before) const {
  if (!drops_rows_) return;
  const int64_t more =
      dropped_rows(state.position, config_.window) - dropped_rows(before, config_.window);
  for (int64_t i = 0; more > 0 && i < state.layout().caches(); ++i) {
    std::vector<float>& cache = state.mutable_cache(i);
    const int64_t row = state.layout().cache(i).floats();
    cache.erase(cache.begin() + cache_tile * row, cache.begin() + (cache_tile + more) * row);
  }
}

void Model::run(std::span<const SequenceInput> batch, const Cpu& cpu) const {
  run_in_passes(*this, batch, cpu, [&](const ForwardPass& pass) { run_pass(pass, cpu); });
}

}  // namespace deltasane::gated_delta
