// The operators of a layer in their order, on the CPU.
#include <cmath>

#include "kernel/delta_rule/delta_rule.h"
#include "kernel/rwkv7/rwkv7.h"
#include "model/rwkv7/pass.h"

namespace deltasane {

using kernel::Activation;
using kernel::Cpu;
using kernel::Matmul;
using kernel::matmul;
using kernel::Store;

namespace {

constexpr float norm_eps = 1e-5f, group_norm_eps = 64e-5f;

// Nothing where both are the same.
void copy_rows(const View<float>& from, const View<float>& to) {
  if (from.data == to.data) return;
  for (int64_t row = 0; row < from.shape[0]; ++row)
    std::copy_n(from.at(row), from.shape[1], to.at(row));
}

}  // namespace

Tensor<float> Rwkv7::taus(const Layer& layer, const Pass& pass, size_t sequence,
                          const Cpu& cpu) const {
  const Rows& rows = pass.rows;
  const RecurrentState& state = rows.state(sequence);
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
    const float* u = pass.own.u.at(row);
    const float* before = t > 0 ? u - shape_.channels : rows.shift(sequence, layer_index, 0);
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

// What lies between the products of time mix, for some heads of one sequence.
void Rwkv7::recur(int64_t index, Pass& pass, size_t sequence, int64_t first, int64_t heads,
                  const Cpu& cpu) const {
  const Layer& layer = layers_[size_t(index)];
  const Scratch& s = pass.s;
  const int64_t size = shape_.head_size, from = first * size, width = shape_.channels;
  const auto rows = [&](const View<float>& all) {
    return pass.rows.of(sequence, all).part(1, from, heads * size);
  };
  const auto tokens = [&](const View<float>& all) {
    const int64_t time = pass.rows.time;
    return View<float>{rows(all).data, {1, time, heads, size}, {time * width, width, size, 1}};
  };
  if (!layer.v) copy_rows(rows(s.v), rows(s.v_first));
  kernel::TimeMixInputs in{size,
                           rows(s.w),
                           rows(s.a),
                           rows(s.b),
                           rows(s.k),
                           rows(s.v),
                           {},
                           {},
                           layer.w0.data() + from,
                           layer.a0.data() + from,
                           layer.v ? layer.v0.data() + from : nullptr,
                           layer.k_k.data() + from,
                           layer.k_a.data() + from};
  if (layer.v) in.gate = rows(s.gate), in.v_first = rows(s.v_first);
  kernel::time_mix_inputs(in, cpu);

  const Tensor<float> tau =
      sane_.kind == SaneKind::none ? Tensor<float>() : taus(layer, pass, sequence, cpu);
  if (pass.rows.taus && first == 0) pass.rows.taus->add(index, tau.span());
  kernel::DeltaRule<float> op;
  op.r = tokens(s.r), op.w = tokens(s.w), op.k = tokens(s.k), op.v = tokens(s.v);
  op.a = tokens(s.a), op.b = tokens(s.b);
  if (sane_.kind != SaneKind::none) op.chunk = sane_.chunk;
  if (tau.elements()) op.tau = tau.view().part(2, first, heads);
  op.position = {&pass.rows.state(sequence).position, {1}};
  op.final_state = {pass.rows.memory(sequence, index, first), {1, heads, size, size}};
  op.initial = op.final_state;
  op.y = tokens(s.y);
  kernel::delta_rule(op, cpu);
  kernel::time_mix_output(
      {size, rows(s.y), rows(s.r), rows(s.k), rows(s.v), rows(s.g), layer.ln_x.weight.data() + from,
       layer.ln_x.bias.data() + from, layer.r_k.data() + from, group_norm_eps},
      cpu);
}

// r, k and v, and what the low-rank pairs make of their mixes.
void Rwkv7::project(const Layer& layer, Pass& pass) const {
  const Scratch &s = pass.s, &own = pass.own;
  // in the first layer, which has no v, the last of each is left out
  const LowRank& v = layer.v ? *layer.v : layer.w;
  const Matmul first[] = {{layer.receptance, own.mix_r, s.r}, {layer.key, own.mix_k, s.k},
                          {layer.value, own.mix_v, s.v},      {layer.w.down, own.mix_w, s.low_w},
                          {layer.a.down, own.mix_a, s.low_a}, {layer.g.down, own.mix_g, s.low_g},
                          {v.down, own.mix_v, s.low_v}};
  pass.products({first, size_t(layer.v ? 7 : 6)});
  copy_rows(s.low_w, own.low_w);
  copy_rows(s.low_g, own.low_g);
  kernel::activate(Activation::tanh, own.low_w, pass.cpu);
  kernel::activate(Activation::sigmoid, own.low_g, pass.cpu);
  const Matmul second[] = {{layer.w.up, own.low_w, s.w},
                           {layer.a.up, s.low_a, s.a},
                           {layer.g.up, own.low_g, s.g},
                           {v.up, s.low_v, s.gate}};
  pass.products({second, size_t(layer.v ? 4 : 3)});
}

void Rwkv7::time_mix(int64_t index, Pass& pass) const {
  const Layer& layer = layers_[size_t(index)];
  const Scratch &s = pass.s, &own = pass.own;
  const Rows& rows = pass.rows;
  kernel::layer_norm(s.x, layer.ln1.weight.data(), layer.ln1.bias.data(), norm_eps, own.u,
                     pass.cpu);
  const float* const mu[] = {layer.x_r.data(), layer.x_w.data(), layer.x_k.data(),
                             layer.x_v.data(), layer.x_a.data(), layer.x_g.data()};
  for (size_t i = 0; i < rows.sequences(); ++i) {
    const View<float> out[] = {rows.of(i, own.mix_r), rows.of(i, own.mix_w), rows.of(i, own.mix_k),
                               rows.of(i, own.mix_v), rows.of(i, own.mix_a), rows.of(i, own.mix_g)};
    kernel::token_shift({rows.of(i, own.u), rows.shift(i, index, 0), mu, out}, pass.cpu);
  }
  project(layer, pass);
  pass.heads(shape_.heads, [&](size_t sequence, int64_t first, int64_t heads, const Cpu& cpu) {
    recur(index, pass, sequence, first, heads, cpu);
  });
  const Matmul output[] = {{layer.output, s.y, s.x, Store::add}};
  pass.products(output);
  keep_last(index, 0, pass);
}

void Rwkv7::channel_mix(int64_t index, Pass& pass) const {
  const Layer& layer = layers_[size_t(index)];
  const Scratch &s = pass.s, &own = pass.own;
  const Rows& rows = pass.rows;
  kernel::layer_norm(s.x, layer.ln2.weight.data(), layer.ln2.bias.data(), norm_eps, own.u,
                     pass.cpu);
  const float* const mu[] = {layer.ffn_x_k.data()};
  for (size_t i = 0; i < rows.sequences(); ++i) {
    const View<float> out[] = {rows.of(i, own.mix_k)};
    kernel::token_shift({rows.of(i, own.u), rows.shift(i, index, 1), mu, out}, pass.cpu);
  }
  const Matmul key[] = {{layer.ffn_key, own.mix_k, s.hidden}};
  pass.products(key);
  keep_last(index, 1, pass);
  copy_rows(s.hidden, own.hidden);
  kernel::activate(Activation::squared_relu, own.hidden, pass.cpu);
  const Matmul value[] = {{layer.ffn_value, own.hidden, s.x, Store::add}};
  pass.products(value);
}

// By one thread, after all have read what was there.
void Rwkv7::keep_last(int64_t index, int which, const Pass& pass) const {
  if (!pass.leads()) return;
  for (size_t i = 0; i < pass.rows.sequences(); ++i)
    std::copy_n(pass.rows.of(i, pass.own.u).at(pass.rows.time - 1), shape_.channels,
                pass.rows.shift(i, index, which));
}

void Rwkv7::go_through_layers(Pass& pass, Logits wanted, View<float> logits) const {
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    time_mix(layer, pass);
    channel_mix(layer, pass);
  }
  if (wanted == Logits::none) return;
  const int64_t count = wanted == Logits::last ? 1 : pass.rows.count();
  const View<float> last = pass.s.x.part(0, pass.rows.count() - count, count);
  const View<float> normal = pass.own.u.part(0, 0, count);
  kernel::layer_norm(last, ln_out_.weight.data(), ln_out_.bias.data(), norm_eps, normal, pass.cpu);
  const Matmul head[] = {{*head_, normal, logits}};
  pass.products(head);
}

}  // namespace deltasane
