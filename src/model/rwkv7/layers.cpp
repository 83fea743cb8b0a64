// The steps of block.h on the CPU, for inference.
#include "kernel/activation/activation.h"
#include "kernel/delta_rule/delta_rule.h"
#include "kernel/norm/norm.h"
#include "kernel/sane/tau.h"
#include "kernel/time_mix/time_mix.h"
#include "kernel/token_shift/token_shift.h"
#include "model/rwkv7/block.h"
#include "model/rwkv7/pass.h"
#include "model/rwkv7/tau_mix.h"

namespace deltasane {

using kernel::Activation;
using kernel::Cpu;
using kernel::Matmul;
using kernel::Store;
using rwkv7::Half;
using rwkv7::LowRank;
using rwkv7::Mix;
using rwkv7::Projection;

namespace {

// Nothing where both are the same.
void copy_rows(const View<float>& from, const View<float>& to) {
  if (from.data == to.data) return;
  for (int64_t row = 0; row < from.shape[0]; ++row)
    std::copy_n(from.at(row), from.shape[1], to.at(row));
}

}  // namespace

class Rwkv7::Block {
 public:
  Block(const Rwkv7& model, Pass& pass, int64_t index)
      : model_(model), pass_(pass), index_(index), layer_(model.layers_[size_t(index)]) {
    first_.reserve(std::size(rwkv7::projections) + std::size(rwkv7::low_ranks));
  }

  bool is_first_layer() const { return index_ == 0; }
  void norm_shift(Half half);
  void fork() {}
  void join() {}
  void project(std::span<const Projection> all);
  void low_rank(std::span<const LowRank> pairs);
  void tau() {}  // by each part that needs it: its product is small
  template <class Body>
  void heads(const Body& body);
  void add_output();
  void hidden(Activation activation);
  void add_hidden();
  void store_shift(Half half);

 private:
  friend class Rwkv7::BlockPart;
  std::optional<Activation> activation_of_products(std::optional<Activation> wanted) const {
    return pass_.products_activate() ? wanted : std::nullopt;
  }
  static int which(Half half) { return half == Half::time_mix ? 0 : 1; }
  // A mix, row by row, if products compute it.
  kernel::RowsOfX mixed(const float* mu, Half half) const {
    if (!pass_.products_mix()) return {};
    return [this, mu, half](int64_t row, float* to) {
      const Rows& rows = pass_.rows;
      const View<float>& u = pass_.own.u;
      const int64_t sequence = row / rows.time, in_sequence = row % rows.time;
      const float* const before =
          in_sequence > 0 ? u.at(row - 1) : rows.shift(size_t(sequence), index_, which(half));
      kernel::token_shift_row(u.at(row), before, mu, to, u.shape[1], pass_.cpu.isa);
    };
  }
  static const View<float>& mix(const Scratch& of, Mix one) {
    const View<float>* const all[] = {&of.mix_r, &of.mix_w, &of.mix_k,
                                      &of.mix_v, &of.mix_a, &of.mix_g};
    return *all[size_t(one)];
  }
  static const View<float>& low(const Scratch& of, const LowRank& pair) {
    const View<float>* const all[] = {&of.low_w, &of.low_a, &of.low_g, &of.low_v};
    return *all[pair.name];
  }
  Matmul value() const;
  const LowRankWeights& weights(const LowRank& pair) const {
    const LowRankWeights* const all[] = {&layer_.w, &layer_.a, &layer_.g,
                                         layer_.v ? &*layer_.v : nullptr};
    return *all[pair.name];
  }

  const Rwkv7& model_;
  Pass& pass_;
  int64_t index_;
  const Layer& layer_;
  std::vector<Matmul> first_;        // products of the mixes: one job
  std::vector<Tensor<float>> taus_;  // of the sequences, where each head would compute them
};

// Some heads of one sequence. With heads apart, one.
class Rwkv7::BlockPart {
 public:
  BlockPart(const Block& block, size_t sequence, int64_t first, int64_t heads, const Cpu& cpu)
      : model_(block.model_),
        pass_(block.pass_),
        index_(block.index_),
        layer_(block.layer_),
        taus_(block.taus_),
        s_(block.pass_.s),
        sequence_(sequence),
        first_(first),
        heads_(heads),
        cpu_(cpu) {}

  Tensor<float> tau() const;  // (1, chunks, head), of all heads
  void store_v_first() { copy_rows(rows(s_.v), rows(s_.v_first)); }
  void time_mix_inputs();
  void recurrence();
  void time_mix_output();

 private:
  int64_t size() const { return model_.shape_.head_size; }
  int64_t from() const { return first_ * size(); }
  View<float> rows(const View<float>& all) const {
    if (pass_.heads_apart()) return pass_.rows.of(sequence_, Pass::columns_of(all, first_, size()));
    return pass_.rows.of(sequence_, all).slice(1, from(), heads_ * size());
  }
  View<float> tokens(const View<float>& all) const {
    const View<float> some = rows(all);
    const int64_t time = pass_.rows.time, width = some.stride[0];
    return {some.data, {1, time, heads_, size()}, {time * width, width, size(), 1}};
  }

  const Rwkv7& model_;
  const Pass& pass_;
  int64_t index_;
  const Layer& layer_;
  const std::vector<Tensor<float>>& taus_;
  const Scratch& s_;
  size_t sequence_;
  int64_t first_, heads_;
  const Cpu& cpu_;
};

void Rwkv7::Block::norm_shift(Half half) {
  const bool of_time = half == Half::time_mix;
  const Scratch &s = pass_.s, &own = pass_.own;
  const Rows& rows = pass_.rows;
  const Norm& norm = of_time ? layer_.ln1 : layer_.ln2;
  pass_.norm(s.x, norm.weight, norm.bias, model_.shape_.norms.layer_eps, own.u);
  if (pass_.products_mix()) return;
  constexpr size_t most = 6;
  const size_t mixes = of_time ? most : 1;
  const float* mu[most] = {layer_.ffn_mu.data()};
  if (of_time)
    for (size_t i = 0; i < most; ++i) mu[i] = layer_.mu[i].data();
  for (size_t sequence = 0; sequence < rows.sequences(); ++sequence) {
    View<float> out[most] = {rows.of(sequence, own.mix_k)};
    if (of_time)
      for (size_t i = 0; i < most; ++i) out[i] = rows.of(sequence, mix(own, Mix(i)));
    kernel::token_shift({rows.of(sequence, own.u),
                         rows.shift(sequence, index_, which(half)),
                         {mu, mixes},
                         {out, mixes}},
                        pass_.cpu);
  }
}

void Rwkv7::Block::project(std::span<const Projection> all) {
  const kernel::Weights* const matrix[] = {&layer_.receptance, &layer_.key, &layer_.value};
  const View<float> out[] = {pass_.s.r, pass_.s.k, pass_.s.v};
  for (const Projection& one : all)
    first_.push_back({*matrix[size_t(one.matrix)], mix(pass_.own, one.mix), out[size_t(one.matrix)],
                      Store::overwrite, std::nullopt,
                      mixed(layer_.mu[size_t(one.mix)].data(), Half::time_mix),
                      pass_.columns_together()});
}

void Rwkv7::Block::low_rank(std::span<const LowRank> pairs) {
  const Scratch &s = pass_.s, &own = pass_.own;
  for (const LowRank& pair : pairs)
    first_.push_back({weights(pair).down, mix(own, pair.mix), low(s, pair), Store::overwrite,
                      activation_of_products(pair.between),
                      mixed(layer_.mu[size_t(pair.mix)].data(), Half::time_mix)});
  pass_.products(first_);
  std::vector<Matmul> second;
  second.reserve(pairs.size());
  const View<float> out[] = {s.w, s.a, s.g, s.gate};
  for (const LowRank& pair : pairs) {
    const View<float>& x = low(pair.between ? own : s, pair);
    if (pair.between && !pass_.products_activate()) {
      copy_rows(low(s, pair), x);
      kernel::activate(*pair.between, x, pass_.cpu);
    }
    second.push_back({.w = weights(pair).up,
                      .x = x,
                      .y = out[pair.name],
                      .y_columns = pass_.columns_together()});
  }
  pass_.products(second);
}

template <class Body>
void Rwkv7::Block::heads(const Body& body) {
  if (pass_.heads_apart() && model_.sane().kind != SaneKind::none)
    for (size_t sequence = 0; sequence < pass_.rows.sequences(); ++sequence)
      taus_.push_back(BlockPart(*this, sequence, 0, 1, pass_.cpu).tau());
  pass_.heads(model_.shape_.heads,
              [&](size_t sequence, int64_t first, int64_t heads, const Cpu& cpu) {
                BlockPart part(*this, sequence, first, heads, cpu);
                body(part);
              });
}

void Rwkv7::Block::add_output() {
  Matmul output{layer_.output, pass_.s.y, pass_.s.x, Store::add};
  output.rows_of_x = pass_.rows_of(pass_.s.y);
  output.y_columns = pass_.columns_together();
  pass_.products({&output, 1});
}

void Rwkv7::Block::hidden(Activation activation) {
  const Matmul key[] = {{layer_.ffn_key, pass_.own.mix_k, pass_.s.hidden, Store::overwrite,
                         activation_of_products(activation),
                         mixed(layer_.ffn_mu.data(), Half::channel_mix)}};
  if (pass_.products_activate()) return kernel::matmul_chain(key[0], value(), pass_.cpu);
  pass_.products(key);
  copy_rows(pass_.s.hidden, pass_.own.hidden);
  kernel::activate(activation, pass_.own.hidden, pass_.cpu);
}

Matmul Rwkv7::Block::value() const {
  Matmul value{layer_.ffn_value, pass_.own.hidden, pass_.s.x, Store::add};
  value.y_columns = pass_.columns_together();
  return value;
}

// Unless hidden() has.
void Rwkv7::Block::add_hidden() {
  if (pass_.products_activate()) return;
  const Matmul product[] = {value()};
  pass_.products(product);
}

// By one thread, after all have read what was there.
void Rwkv7::Block::store_shift(Half half) {
  if (!pass_.leads()) return;
  for (size_t i = 0; i < pass_.rows.sequences(); ++i)
    std::copy_n(pass_.rows.of(i, pass_.own.u).at(pass_.rows.time - 1), model_.shape_.channels,
                pass_.rows.shift(i, index_, which(half)));
}

Tensor<float> Rwkv7::BlockPart::tau() const {
  const Rows& rows = pass_.rows;
  const Rwkv7Shape& shape = model_.shape_;
  const SaneUse& sane = model_.sane();
  const SequenceState& state = rows.state(sequence_);
  const int64_t chunks = kernel::chunks_ending(state.position, rows.time, sane.chunk);
  Tensor<float> tau({1, chunks, shape.heads});
  if (chunks == 0) return tau;
  const auto fill = [&](std::span<const float> z) {
    if (state.alphas.empty()) return kernel::tau_forward(z, sane.alpha, tau.span());
    const auto heads = size_t(shape.heads);
    kernel::tau_forward_per_head(z, std::span(state.alphas).subspan(size_t(index_) * heads, heads),
                                 tau.span());
  };
  if (sane.kind == SaneKind::run_time) {
    fill({});
    return tau;
  }
  Tensor<float> x({chunks, shape.channels});
  rwkv7::tau_mix({.u = rows.of(sequence_, pass_.own.u),
                  .before = rows.shift(sequence_, index_, 0),
                  .mu = layer_.x_tau.data(),
                  .first = sane.chunk - 1 - state.position % sane.chunk,
                  .chunk = sane.chunk,
                  .out = x.view()});
  kernel::matmul_few_alike(*layer_.w_tau, x.view(), {tau.data(), {chunks, shape.heads}}, cpu_);
  fill(tau.span());
  return tau;
}

void Rwkv7::BlockPart::time_mix_inputs() {
  kernel::TimeMixInputs in{.head_size = size(),
                           .w = rows(s_.w),
                           .a = rows(s_.a),
                           .b = rows(s_.b),
                           .k = rows(s_.k),
                           .v = rows(s_.v),
                           .gate = {},
                           .v_first = {},
                           .w0 = layer_.w0.data() + from(),
                           .a0 = layer_.a0.data() + from(),
                           .v0 = layer_.v ? layer_.v0.data() + from() : nullptr,
                           .k_k = layer_.k_k.data() + from(),
                           .k_a = layer_.k_a.data() + from(),
                           .key_norm = model_.shape_.norms.key};
  if (layer_.v) in.gate = rows(s_.gate), in.v_first = rows(s_.v_first);
  kernel::time_mix_inputs(in, cpu_);
}

void Rwkv7::BlockPart::recurrence() {
  const SaneUse& sane = model_.sane();
  Tensor<float> own;
  if (sane.kind != SaneKind::none && taus_.empty()) own = tau();
  const Tensor<float>& all_tau = taus_.empty() ? own : taus_[sequence_];
  if (pass_.rows.taus && first_ == 0) pass_.rows.taus->add(index_, all_tau.span());
  kernel::DeltaRule<float> op;
  op.r = tokens(s_.r), op.w = tokens(s_.w), op.k = tokens(s_.k), op.v = tokens(s_.v);
  op.a = tokens(s_.a), op.b = tokens(s_.b);
  if (sane.kind != SaneKind::none) op.chunk = sane.chunk;
  if (all_tau.elements()) op.tau = all_tau.view().slice(2, first_, heads_);
  op.position = {&pass_.rows.state(sequence_).position, {1}};
  op.final_state = {pass_.rows.memory(sequence_, index_, first_), {1, heads_, size(), size()}};
  op.initial = op.final_state;
  op.y = tokens(s_.y);
  kernel::delta_rule(op, cpu_);
}

void Rwkv7::BlockPart::time_mix_output() {
  kernel::time_mix_output({.head_size = size(),
                           .y = rows(s_.y),
                           .r = rows(s_.r),
                           .k = rows(s_.k),
                           .v = rows(s_.v),
                           .g = rows(s_.g),
                           .weight = layer_.ln_x.weight.data() + from(),
                           .bias = layer_.ln_x.bias.data() + from(),
                           .r_k = layer_.r_k.data() + from(),
                           .eps = model_.shape_.norms.group_eps},
                          cpu_);
}

void Rwkv7::run_layers(Pass& pass, Logits wanted, View<float> logits) const {
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    Block block(*this, pass, layer);
    rwkv7::block_forward(block);
  }
  if (wanted == Logits::none) return;
  const int64_t count = wanted == Logits::last ? 1 : pass.rows.count();
  const int64_t first = pass.rows.count() - count;
  const View<float> normal = pass.own.u.slice(0, first, count);
  pass.norm(pass.s.x, ln_out_.weight, ln_out_.bias, shape_.norms.layer_eps, pass.own.u);
  const Matmul head[] = {{*head_, normal, logits}};
  pass.products(head);
}

}  // namespace deltasane
