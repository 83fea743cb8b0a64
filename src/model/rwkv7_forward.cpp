#include <cmath>

#include "kernel/delta_rule/delta_rule.h"
#include "kernel/rwkv7/rwkv7.h"
#include "model/log_probability.h"
#include "model/rwkv7.h"
#include "model/rwkv7_gpu.h"

namespace deltasane {

using kernel::Activation;
using kernel::Cpu;
using kernel::Matmul;
using kernel::matmul;
using kernel::matmul_all;
using kernel::Store;

namespace {

constexpr float norm_eps = 1e-5f, group_norm_eps = 64e-5f;
constexpr int64_t block_tokens = 512;   // of a long input, taken at a time
constexpr int64_t scored_tokens = 256;  // whose logits are kept at a time

}  // namespace

// `time` tokens of each of several sequences; sequence i has the rows [i * time, (i + 1) * time).
struct Rwkv7::Rows {
  std::span<RecurrentState* const> states;
  int64_t time;
  TauRecord* taus = nullptr;

  int64_t count() const { return int64_t(states.size()) * time; }
  View<float> of(size_t sequence, const View<float>& all) const {
    return all.part(0, int64_t(sequence) * time, time);
  }
};

// (rows, channels) each, unless said otherwise. x is the residual stream. Views on one line share
// their memory: the first is done with when the others are written.
struct Rwkv7::Scratch {
  View<float> x, u, r, k, v, v_first;
  View<float> mix_r, gate;
  View<float> mix_k, b;
  View<float> mix_w, w, hidden;  // hidden: (rows, feed_forward), over these four
  View<float> mix_a, a;
  View<float> mix_g, g;
  View<float> mix_v, y;
  View<float> low_w, low_a, low_v, low_g;  // (rows, rank)

  Scratch(const Rwkv7Shape& s, int64_t rows)
      : memory_({rows, 8 * s.channels + std::max(4 * s.channels, s.feed_forward) + s.rank_w +
                           s.rank_a + s.rank_v + s.rank_g}) {
    float* next = memory_.data();
    const auto take = [&](int64_t columns) {
      const View<float> taken{next, {rows, columns}};
      next += rows * columns;
      return taken;
    };
    for (View<float>* t : {&x, &u, &r, &k, &v, &v_first, &mix_r, &mix_k}) *t = take(s.channels);
    low_w = take(s.rank_w), low_a = take(s.rank_a), low_v = take(s.rank_v), low_g = take(s.rank_g);
    hidden = {next, {rows, s.feed_forward}};
    for (View<float>* t : {&mix_w, &mix_a, &mix_g, &mix_v}) *t = take(s.channels);
    gate = mix_r, b = mix_k, w = mix_w, a = mix_a, g = mix_g, y = mix_v;
  }

 private:
  Tensor<float> memory_;
};

namespace {

void keep_last(const View<float>& rows, float* place) {
  const int64_t channels = rows.shape[1];
  std::copy_n(rows.at(rows.shape[0] - 1), channels, place);
}

}  // namespace

Tensor<float> Rwkv7::taus(const Layer& layer, const Rows& rows, size_t sequence, const Scratch& s,
                          const Cpu& cpu) const {
  const RecurrentState& state = *rows.states[sequence];
  const int64_t chunks = kernel::chunks_ending(state.position, rows.time, sane_.chunk);
  Tensor<float> tau({1, chunks, shape_.heads});
  if (chunks == 0) return tau;
  const int64_t layer_index = &layer - layers_.data();
  const auto alpha = [&](int64_t at) {  // of an element of tau
    return state.alphas.empty()
               ? sane_.alpha
               : double(state.alphas[size_t(layer_index * shape_.heads + at % shape_.heads)]);
  };
  if (sane_.kind == SaneKind::run_time) {
    for (int64_t i = 0; i < tau.elements(); ++i) tau[i] = float(alpha(i) * std::log(2.0) + 1);
    return tau;
  }
  // x_tau of the tokens that end a chunk
  Tensor<float> x({chunks, shape_.channels});
  const int64_t first = sane_.chunk - 1 - state.position % sane_.chunk;
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t t = first + c * sane_.chunk, row = int64_t(sequence) * rows.time + t;
    const float* u = s.u.data + row * shape_.channels;
    const float* before = t > 0 ? u - shape_.channels : state.shift().view().at(layer_index, 0);
    for (int64_t i = 0; i < shape_.channels; ++i)
      x[c * shape_.channels + i] = u[i] + (before[i] - u[i]) * layer.x_tau[i];
  }
  matmul(*layer.w_tau, x.view(), {tau.data(), {chunks, shape_.heads}}, cpu);
  for (int64_t i = 0; i < tau.elements(); ++i) {
    const auto z = double(tau[i]);
    const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
    tau[i] = float(alpha(i) * softplus + 1);
  }
  return tau;
}

void Rwkv7::recur(int64_t index, const Rows& rows, Scratch& s, const Cpu& cpu) const {
  const Layer& layer = layers_[size_t(index)];
  const int64_t heads = shape_.heads, size = shape_.head_size;
  for (size_t i = 0; i < rows.states.size(); ++i) {
    RecurrentState& state = *rows.states[i];
    const auto tokens = [&](const View<float>& all) {
      return View<float>{rows.of(i, all).data, {1, rows.time, heads, size}};
    };
    const Tensor<float> tau =
        sane_.kind == SaneKind::none ? Tensor<float>() : taus(layer, rows, i, s, cpu);
    if (rows.taus) rows.taus->add(index, tau.span());
    kernel::DeltaRule<float> op;
    op.r = tokens(s.r), op.w = tokens(s.w), op.k = tokens(s.k), op.v = tokens(s.v);
    op.a = tokens(s.a), op.b = tokens(s.b);
    if (sane_.kind != SaneKind::none) op.chunk = sane_.chunk;
    if (tau.elements()) op.tau = tau.view();
    op.position = {&state.position, {1}};
    const View<float> memory{state.mutable_memory().view().at(index), {1, heads, size, size}};
    op.initial = memory;
    op.final_state = memory;
    op.y = tokens(s.y);
    kernel::delta_rule(op, cpu);
  }
}

// r, k and v, and what the low-rank pairs make of their mixes.
void Rwkv7::project(const Layer& layer, Scratch& s, const Cpu& cpu) const {
  std::vector<Matmul> first{{layer.receptance, s.mix_r, s.r}, {layer.key, s.mix_k, s.k},
                            {layer.value, s.mix_v, s.v},      {layer.w.down, s.mix_w, s.low_w},
                            {layer.a.down, s.mix_a, s.low_a}, {layer.g.down, s.mix_g, s.low_g}};
  if (layer.v) first.push_back({layer.v->down, s.mix_v, s.low_v});
  matmul_all(first, cpu);
  kernel::activate(Activation::tanh, s.low_w, cpu);
  kernel::activate(Activation::sigmoid, s.low_g, cpu);
  std::vector<Matmul> second{
      {layer.w.up, s.low_w, s.w}, {layer.a.up, s.low_a, s.a}, {layer.g.up, s.low_g, s.g}};
  if (layer.v) second.push_back({layer.v->up, s.low_v, s.gate});
  matmul_all(second, cpu);
}

void Rwkv7::time_mix(int64_t index, const Rows& rows, Scratch& s, const Cpu& cpu) const {
  const Layer& layer = layers_[size_t(index)];
  kernel::layer_norm(s.x, layer.ln1.weight.data(), layer.ln1.bias.data(), norm_eps, s.u, cpu);
  const float* const mu[] = {layer.x_r.data(), layer.x_w.data(), layer.x_k.data(),
                             layer.x_v.data(), layer.x_a.data(), layer.x_g.data()};
  for (size_t i = 0; i < rows.states.size(); ++i) {
    const View<float> out[] = {rows.of(i, s.mix_r), rows.of(i, s.mix_w), rows.of(i, s.mix_k),
                               rows.of(i, s.mix_v), rows.of(i, s.mix_a), rows.of(i, s.mix_g)};
    kernel::token_shift({rows.of(i, s.u), rows.states[i]->shift().view().at(index, 0), mu, out},
                        cpu);
  }
  project(layer, s, cpu);
  if (!layer.v) std::copy_n(s.v.data, s.v.shape.elements(), s.v_first.data);

  kernel::TimeMixInputs in{shape_.head_size,
                           s.w,
                           s.a,
                           s.b,
                           s.k,
                           s.v,
                           {},
                           {},
                           layer.w0.data(),
                           layer.a0.data(),
                           layer.v0.data(),
                           layer.k_k.data(),
                           layer.k_a.data()};
  if (layer.v) in.gate = s.gate, in.v_first = s.v_first;
  kernel::time_mix_inputs(in, cpu);
  recur(index, rows, s, cpu);
  kernel::time_mix_output({shape_.head_size, s.y, s.r, s.k, s.v, s.g, layer.ln_x.weight.data(),
                           layer.ln_x.bias.data(), layer.r_k.data(), group_norm_eps},
                          cpu);
  matmul(layer.output, s.y, s.x, cpu, Store::add);
  for (size_t i = 0; i < rows.states.size(); ++i)
    keep_last(rows.of(i, s.u), rows.states[i]->mutable_shift().view().at(index, 0));
}

void Rwkv7::channel_mix(int64_t index, const Rows& rows, Scratch& s, const Cpu& cpu) const {
  const Layer& layer = layers_[size_t(index)];
  kernel::layer_norm(s.x, layer.ln2.weight.data(), layer.ln2.bias.data(), norm_eps, s.u, cpu);
  const float* const mu[] = {layer.ffn_x_k.data()};
  for (size_t i = 0; i < rows.states.size(); ++i) {
    float* const before = rows.states[i]->mutable_shift().view().at(index, 1);
    const View<float> out[] = {rows.of(i, s.mix_k)};
    kernel::token_shift({rows.of(i, s.u), before, mu, out}, cpu);
    keep_last(rows.of(i, s.u), before);
  }
  matmul(layer.ffn_key, s.mix_k, s.hidden, cpu);
  kernel::activate(Activation::squared_relu, s.hidden, cpu);
  matmul(layer.ffn_value, s.hidden, s.x, cpu, Store::add);
}

void Rwkv7::run(const Rows& rows, std::span<const int32_t> tokens, Logits wanted,
                View<float> logits, const Cpu& cpu) const {
  Scratch s(shape_, rows.count());
  embed(tokens, s.x, cpu);
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    time_mix(layer, rows, s, cpu);
    channel_mix(layer, rows, s, cpu);
  }
  for (RecurrentState* state : rows.states) state->position += rows.time;
  if (wanted == Logits::none) return;
  const View<float> last = wanted == Logits::last ? s.x.part(0, rows.count() - 1, 1) : s.x;
  kernel::layer_norm(last, ln_out_.weight.data(), ln_out_.bias.data(), norm_eps, last, cpu);
  matmul(*head_, last, logits, cpu);
}

void Rwkv7::expect_own(std::span<const int32_t> tokens,
                       std::span<RecurrentState* const> states) const {
  for (const RecurrentState* state : states)
    if (state->shape != state_shape())
      fail(Fault::argument, "state: expected that of this model, found another shape");
  for (const int32_t token : tokens)
    if (token < 0 || token >= shape_.vocabulary)
      fail(Fault::argument, "token: expected 0 to ", shape_.vocabulary - 1, ", found ", token);
}

void Rwkv7::forward(std::span<const int32_t> tokens, RecurrentState& state, Logits wanted,
                    View<float> logits, const Cpu& cpu, TauRecord* taus) const {
  RecurrentState* const states[] = {&state};
  expect_own(tokens, states);
  const int64_t count = int64_t(tokens.size());
  if (wanted != Logits::none)
    expect_shape("logits", logits, {wanted == Logits::all ? count : 1, shape_.vocabulary});
  if (gpu_) return gpu_->forward(tokens, state, wanted, logits, taus);
  // Blocks end where a tile of 16 positions does, so that the cut leaves no trace.
  for (int64_t from = 0; from < count;) {
    const int64_t some = std::min(count - from, block_tokens - state.position % 16);
    const bool is_last = from + some == count;
    const Logits here = wanted == Logits::last && !is_last ? Logits::none : wanted;
    run({states, some, taus}, tokens.subspan(size_t(from), size_t(some)), here,
        here == Logits::all ? logits.part(0, from, some) : logits, cpu);
    from += some;
  }
}

void Rwkv7::step(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                 View<float> logits, const Cpu& cpu) const {
  require(tokens.size() == states.size(), "step has one token per sequence");
  expect_own(tokens, states);
  expect_shape("logits", logits, {int64_t(tokens.size()), shape_.vocabulary});
  if (gpu_) return gpu_->step(tokens, states, logits);
  run({states, 1}, tokens, Logits::all, logits, cpu);
}

double Rwkv7::read_and_score(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                             RecurrentState& state, std::span<double> losses, const Cpu& cpu,
                             TauRecord* taus) const {
  require(tokens.size() == targets.size() && tokens.size() == losses.size(),
          "every token has a target and a loss");
  RecurrentState* const states[] = {&state};
  expect_own(tokens, states);
  expect_own(targets, {});
  const auto count = int64_t(tokens.size());
  if (gpu_) {
    gpu_->score(tokens, targets, state, losses, taus);
  } else {
    Tensor<float> kept({std::min(count, scored_tokens), shape_.vocabulary});
    for (int64_t from = 0; from < count;) {
      const int64_t some = std::min(count - from, scored_tokens - state.position % 16);
      const View<float> logits = kept.view().part(0, 0, some);
      forward(tokens.subspan(size_t(from), size_t(some)), state, Logits::all, logits, cpu, taus);
      cpu.threads.parallel(some, [&](int64_t t) {
        losses[size_t(from + t)] =
            -log_probability({logits.at(t), size_t(shape_.vocabulary)}, targets[size_t(from + t)]);
      });
      from += some;
    }
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace deltasane
