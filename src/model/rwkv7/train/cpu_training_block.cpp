#include <algorithm>
#include <vector>

#include "kernel/sane/tau.h"
#include "model/rwkv7/tau_mix.h"
#include "model/rwkv7/train/cpu_training_block.h"

namespace deltasane::rwkv7 {

using kernel::Store;

void CpuTrainingBlock::forward(Tensor<float>* x_out) {
  x_out_ = x_out;
  block_forward(*this);
}

Tensor<float>& CpuTrainingBlock::low(const LowRank& pair) {
  Tensor<float>* const all[] = {&act_.low_w, &act_.low_a, &act_.low_g, &act_.low_v};
  return *all[pair.name];
}

Tensor<float>& CpuTrainingBlock::raw(const LowRank& pair) {
  Tensor<float>* const all[] = {&act_.raw_w, &act_.raw_a, &act_.g, &act_.gate};
  return *all[pair.name];
}

Tensor<float>& CpuTrainingBlock::projected(const Projection& one) {
  Tensor<float>* const all[] = {&act_.r, &act_.raw_k, &act_.raw_v};
  return *all[size_t(one.matrix)];
}

void CpuTrainingBlock::norm_shift(Half half) {
  const bool of_time = half == Half::time_mix;
  const NormSlots& norm = of_time ? l_.ln1 : l_.ln2;
  Tensor<float>& u = of_time ? act_.u : act_.u_ffn;
  kernel::layer_norm((of_time ? act_.x : act_.x_ffn).view(), c_.w(norm.weight), c_.w(norm.bias),
                     c_.shape.norms.layer_eps, u.view(), c_.cpu);
  clear_padding(c_, u);
  make_mixes(half);
}

// Sequence by sequence: the row before a sequence's first is zero.
void CpuTrainingBlock::make_mixes(Half half) {
  const bool of_time = half == Half::time_mix;
  const std::vector<float> zero(size_t(c_.shape.channels), 0.0f);
  std::vector<const float*> mu;
  if (of_time)
    for (const Slot slot : l_.mu) mu.push_back(c_.w(slot));
  else
    mu.push_back(c_.w(l_.ffn_mu));
  Tensor<float>& u = of_time ? act_.u : act_.u_ffn;
  for (int64_t i = 0; i < c_.sequences; ++i) {
    std::vector<View<float>> out;
    if (of_time)
      for (Tensor<float>& one : s_.mix) out.push_back(sequence(one, i));
    else
      out.push_back(sequence(mix(Mix::k), i));
    kernel::token_shift({sequence(u, i), zero.data(), mu, out}, c_.cpu);
  }
}

void CpuTrainingBlock::project(std::span<const Projection> all) {
  for (const Projection& one : all)
    linear(c_, l_.of(one), mix(one.mix).view(), projected(one).view());
}

void CpuTrainingBlock::low_rank(std::span<const LowRank> pairs) {
  for (const LowRank& pair : pairs) {
    factor(c_, l_.of(pair).down, mix(pair.mix).view(), low(pair).view());
    if (pair.between) kernel::activate(*pair.between, low(pair).view(), c_.cpu);
    factor(c_, l_.of(pair).up, low(pair).view(), raw(pair).view());
  }
}

void CpuTrainingBlock::tau() {
  if (!c_.sane) return;
  const CountsTime counted(c_);
  const int64_t chunks = c_.chunks(), chunk = c_.sane->chunk;
  if (chunks == 0) return;
  const std::vector<float> zero(size_t(c_.shape.channels), 0.0f);
  for (int64_t i = 0; i < c_.sequences; ++i)
    tau_mix({sequence(act_.u, i), zero.data(), c_.w(l_.x_tau), chunk - 1, chunk,
             act_.x_tau.view().slice(0, i * chunks, chunks)});
  factor(c_.without_rounding(), l_.w_tau, act_.x_tau.view(), act_.z.view());
  kernel::tau_forward(act_.z.span(), c_.sane->alpha, act_.tau.span());
}

void CpuTrainingBlock::store_v_first() { copy_rows(act_.raw_v, v_first_, c_.cpu); }

void CpuTrainingBlock::time_mix_inputs() {
  copy_rows(act_.raw_w, act_.w, c_.cpu), copy_rows(act_.raw_a, act_.a, c_.cpu);
  copy_rows(act_.raw_k, act_.k, c_.cpu), copy_rows(act_.raw_v, act_.v, c_.cpu);
  kernel::TimeMixInputs in{.head_size = c_.shape.head_size,
                           .w = act_.w.view(),
                           .a = act_.a.view(),
                           .b = act_.b.view(),
                           .k = act_.k.view(),
                           .v = act_.v.view(),
                           .gate = {},
                           .v_first = {},
                           .w0 = c_.w(l_.w0),
                           .a0 = c_.w(l_.a0),
                           .v0 = is_first_ ? nullptr : c_.w(l_.v0),
                           .k_k = c_.w(l_.k_k),
                           .k_a = c_.w(l_.k_a),
                           .key_norm = c_.shape.norms.key};
  if (!is_first_) in.gate = act_.gate.view(), in.v_first = v_first_.view();
  kernel::time_mix_inputs(in, c_.cpu);
}

kernel::DeltaRule<float> CpuTrainingBlock::delta_rule() {
  const Shape tokens{c_.sequences, c_.time, c_.shape.heads, c_.shape.head_size};
  kernel::DeltaRule<float> op;
  op.r = {act_.r.data(), tokens}, op.w = {act_.w.data(), tokens}, op.k = {act_.k.data(), tokens};
  op.v = {act_.v.data(), tokens}, op.a = {act_.a.data(), tokens}, op.b = {act_.b.data(), tokens};
  op.y = {act_.read.data(), tokens};
  op.present = c_.present;
  if (c_.sane) op.chunk = c_.sane->chunk;
  if (c_.chunks()) op.tau = {act_.tau.data(), {c_.sequences, c_.chunks(), c_.shape.heads}};
  return op;
}

void CpuTrainingBlock::recurrence() {
  const CountsTime counted(c_);
  kernel::delta_rule(delta_rule(), c_.cpu);
}

void CpuTrainingBlock::time_mix_output() {
  copy_rows(act_.read, act_.y, c_.cpu);
  kernel::time_mix_output({.head_size = c_.shape.head_size,
                           .y = act_.y.view(),
                           .r = act_.r.view(),
                           .k = act_.k.view(),
                           .v = act_.v.view(),
                           .g = act_.g.view(),
                           .weight = c_.w(l_.ln_x.weight),
                           .bias = c_.w(l_.ln_x.bias),
                           .r_k = c_.w(l_.r_k),
                           .eps = c_.shape.norms.group_eps},
                          c_.cpu);
}

void CpuTrainingBlock::add_output() {
  copy_rows(act_.x, act_.x_ffn, c_.cpu);
  linear(c_, l_.output, act_.y.view(), act_.x_ffn.view(), Store::add);
}

void CpuTrainingBlock::hidden(Activation activation) {
  linear(c_, l_.ffn_key, mix(Mix::k).view(), act_.hidden.view());
  kernel::activate(activation, act_.hidden.view(), c_.cpu);
}

void CpuTrainingBlock::add_hidden() {
  if (!x_out_) return;
  copy_rows(act_.x_ffn, *x_out_, c_.cpu);
  linear(c_, l_.ffn_value, act_.hidden.view(), x_out_->view(), Store::add);
}

}  // namespace deltasane::rwkv7
