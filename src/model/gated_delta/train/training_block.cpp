#include "model/gated_delta/train/training_block.h"

#include <algorithm>
#include <cmath>

#include "kernel/activation/activation.h"
#include "kernel/decay/decay.h"
#include "kernel/norm/rms.h"
#include "kernel/rope/rope.h"
#include "kernel/rows/add_rows.h"
#include "kernel/sane/tau.h"
#include "kernel/short_conv/short_conv.h"
#include "model/gated_delta/block.h"

namespace deltasane::gated_delta {

using kernel::GateActivation;
using kernel::Store;

void TrainingBlock::forward(Tensor<float>* x_out) {
  x_out_ = x_out;
  block_forward(*this);
}

int64_t TrainingBlock::gate_columns() const {
  return l_.mixer == Mixer::attention ? c.heads * c.head_size : c.value_channels();
}

void TrainingBlock::rms(Slot weight, const Tensor<float>& x, int64_t size, double eps,
                        Tensor<float>& y) {
  kernel::rms_norm({x.view(), size, p_.w(weight), float(eps), y.view()}, p_.cpu);
}

void TrainingBlock::norm_before_mixer() {
  if (l_.norms_after) return;
  rms(l_.mixer_norm, a.x, c.channels, c.norm_eps, a.h);
  clear_padding(p_, a.h);
}

void TrainingBlock::norm_before_ffn() {
  if (!l_.norms_after) rms(l_.ffn_norm, a.x_ffn, c.channels, c.norm_eps, a.h_ffn);
}

void TrainingBlock::add_half(const Tensor<float>& x, Tensor<float>& y, Slot norm,
                             Tensor<float>& sum) {
  rms(norm, y, c.channels, c.norm_eps, sum);
  kernel::add_rows(x.view(), sum.view(), p_.cpu);
}

void TrainingBlock::project_recurrent() {
  linear(p_, l_.qkv, h().view(), a.qkv.view());
  if (l_.beta) linear(p_, l_.beta, h().view(), a.beta.view());
  if (l_.decay) linear(p_, l_.decay, h().view(), a.decay_z.view());
  if (l_.decay_down) {
    linear(p_, l_.decay_down, h().view(), a.decay_low.view());
    linear(p_, l_.decay_up, a.decay_low.view(), a.decay_z.view());
  }
  if (l_.gate) linear(p_, l_.gate, h().view(), gate());
  if (l_.gate_down) {
    linear(p_, l_.gate_down, h().view(), a.gate_low.view());
    linear(p_, l_.gate_up, a.gate_low.view(), gate());
  }
  if (!l_.gate_bias) return;
  const float* const bias = p_.w(l_.gate_bias);
  p_.cpu.threads.parallel(p_.rows(), [&](int64_t row) {
    for (int64_t i = 0; i < gate_columns(); ++i) gate().at(row)[i] += bias[i];
  });
}

// From h of the tokens that end a chunk.
void TrainingBlock::tau() {
  if (!p_.sane || p_.chunks() == 0) return;
  const CountsTime counted(p_);
  for (int64_t n = 0; n < p_.sequences * p_.chunks(); ++n) {
    const int64_t t = (n % p_.chunks() + 1) * p_.sane->chunk - 1;
    std::copy_n(h().view().at(n / p_.chunks() * p_.time + t), c.channels, a.x_tau.view().at(n));
  }
  factor(p_.without_rounding(), l_.w_tau, a.x_tau.view(), a.z.view());
  kernel::tau_forward(a.z.span(), p_.sane->alpha, a.tau.span());
}

// (tap, channel), as the operator has them; one tap of 1 without a convolution.
Tensor<float> TrainingBlock::taps_first(Slot convolution) const {
  const int64_t taps = std::max<int64_t>(1, c.taps), channels = c.mixed_channels();
  Tensor<float> turned({taps, channels});
  if (!convolution) turned.fill(1);
  for (int64_t i = 0; convolution && i < taps * channels; ++i)
    turned[i % taps * channels + i / taps] = p_.w(convolution)[i];
  return turned;
}

void TrainingBlock::convolve() {
  const Tensor<float> weight = taps_first(l_.convolution);
  const int64_t taps = weight.shape()[0];
  for (int64_t i = 0; i < p_.sequences; ++i) {
    std::vector<float> before(size_t((taps - 1) * c.mixed_channels()));
    kernel::short_conv({of(i, a.qkv.view()), taps, weight.data(), before.data(),
                        of(i, a.convolved.view())},
                       p_.cpu);
  }
}

// q and k of length 1, and q times K^-1/2.
void TrainingBlock::normalize_keys() {
  const int64_t keys = c.key_channels();
  for (int64_t row = 0; row < p_.rows(); ++row)
    std::copy_n(a.convolved.view().at(row), 2 * keys, s.qk.view().at(row));
  kernel::l2_norm(s.qk.view().slice(1, 0, keys), c.key_size, l2_eps,
                  float(1 / std::sqrt(double(c.key_size))), p_.cpu);
  kernel::l2_norm(s.qk.view().slice(1, keys, keys), c.key_size, l2_eps, 1, p_.cpu);
}

std::vector<float> TrainingBlock::decay_rates() const {
  std::vector<float> rates;
  for (int64_t h = 0; h < c.value_heads; ++h) rates.push_back(std::exp(p_.w(l_.decay_log_rate)[h]));
  return rates;
}

void TrainingBlock::decay_and_beta() {
  if (c.decays()) {
    copy_rows(a.decay_z, a.decay, p_.cpu);
    const std::vector<float> rates = decay_rates();
    kernel::Decay op{a.decay.view(), c.value_heads, rates.data(), p_.w(l_.decay_bias)};
    if (c.decay_bound != 0) op.bound = float(c.decay_bound);
    kernel::decay(op, p_.cpu);
  }
  if (l_.beta) kernel::activate(kernel::Activation::sigmoid, a.beta.view(), p_.cpu);
}

void TrainingBlock::scale_beta() {
  for (int64_t i = 0; i < s.beta.elements(); ++i)
    s.beta[i] = l_.beta ? float(c.beta_scale) * a.beta[i] : 1.0f;
}

kernel::DeltaRule<float> TrainingBlock::delta_rule() {
  const int64_t keys = c.key_channels();
  const auto vectors = [&](const View<float>& rows, int64_t size) -> View<float> {
    return {rows.data,
            {p_.sequences, p_.time, rows.shape[1] / size, size},
            {p_.time * rows.stride[0], rows.stride[0], size, 1}};
  };
  const Shape per_head{p_.sequences, p_.time, c.value_heads};
  kernel::DeltaRule<float> op;
  op.rule = c.rule;
  op.r = vectors(s.qk.view().slice(1, 0, keys), c.key_size);
  op.k = vectors(s.qk.view().slice(1, keys, keys), c.key_size);
  op.v = vectors(a.convolved.view().slice(1, 2 * keys, c.value_channels()), c.value_size);
  if (c.rule == kernel::Rule::kda) op.w = vectors(a.decay.view(), c.key_size);
  if (c.rule == kernel::Rule::gated_deltanet) op.w = {a.decay.data(), per_head};
  op.beta = {s.beta.data(), per_head};
  op.y = vectors(a.read.view(), c.value_size);
  op.present = p_.present;
  if (p_.sane) op.chunk = p_.sane->chunk;
  if (p_.chunks()) op.tau = {a.tau.data(), {p_.sequences, p_.chunks(), c.value_heads}};
  return op;
}

void TrainingBlock::recurrence() {
  normalize_keys(), scale_beta();
  const CountsTime counted(p_);
  kernel::delta_rule(delta_rule(), p_.cpu);
}

void TrainingBlock::gated_output_norm() {
  kernel::RmsNorm op{a.read.view(), c.value_size, p_.w(l_.output_norm), float(c.output_norm_eps),
                     mixed()};
  if (c.gate != OutputGate::none) op.gate = gate();
  op.activation = c.gate == OutputGate::silu ? GateActivation::silu : GateActivation::sigmoid;
  kernel::rms_norm(op, p_.cpu);
}

void TrainingBlock::add_mixer_output() {
  if (l_.norms_after) {
    linear(p_, l_.output, mixed(), a.mixer_out.view());
    return add_half(a.x, a.mixer_out, l_.mixer_norm, a.x_ffn);
  }
  copy_rows(a.x, a.x_ffn, p_.cpu);
  linear(p_, l_.output, mixed(), a.x_ffn.view(), Store::add);
}

void TrainingBlock::network(const LayerSlots::Network& weights, Tensor<float>& gate,
                            Tensor<float>& up) {
  linear(p_, weights.gate, h_ffn().view(), gate.view());
  linear(p_, weights.up, h_ffn().view(), up.view());
}

void TrainingBlock::add_network() {
  network(l_.ffn, a.ffn_gate, a.ffn_up);
  if (!x_out_ && !l_.norms_after) return;
  kernel::multiply_by_gate(GateActivation::silu, a.ffn_gate.view(), a.ffn_up.view(), hidden(l_.ffn),
                           p_.cpu);
  if (l_.norms_after) {
    linear(p_, l_.ffn.down, hidden(l_.ffn), a.ffn_out.view());
    if (x_out_) add_half(a.x_ffn, a.ffn_out, l_.ffn_norm, *x_out_);
    return;
  }
  copy_rows(a.x_ffn, *x_out_, p_.cpu);
  linear(p_, l_.ffn.down, hidden(l_.ffn), x_out_->view(), Store::add);
}

kernel::Router TrainingBlock::router() const {
  return {c.sigmoid_router ? kernel::RouterScore::sigmoid : kernel::RouterScore::softmax,
          c.experts_used, c.renormalize, float(c.expert_scale),
          c.sigmoid_router ? p_.w(l_.router_bias) : nullptr};
}

TrainingBlock::ExpertMatrices TrainingBlock::expert_matrices() const {
  ExpertMatrices all;
  const auto add = [&](Slot slot, std::vector<kernel::Weights>& to) {
    for (int64_t e = 0; e < c.expert_count; ++e) {
      const View<const float> one = trained(p_, slot, e).w;
      to.push_back(kernel::Weights::view(kernel::WeightType::f32, one.data, one.shape[0],
                                         one.shape[1]));
    }
  };
  add(l_.all_experts.gate, all.gate), add(l_.all_experts.up, all.up);
  add(l_.all_experts.down, all.down);
  return all;
}

void TrainingBlock::add_experts() {
  linear(p_, l_.router, h_ffn().view(), a.router.view());
  kernel::route(router(), a.router.view(), a.chosen, p_.cpu);
  if (c.shared_expert_size) network(l_.shared, a.shared_gate, a.shared_up);
  if (l_.shared_gate) {
    linear(p_, l_.shared_gate, h_ffn().view(), a.shared_weight.view());
    kernel::activate(kernel::Activation::sigmoid, a.shared_weight.view(), p_.cpu);
  }
  if (!x_out_) return;
  copy_rows(a.x_ffn, *x_out_, p_.cpu);
  const ExpertMatrices all = expert_matrices();
  kernel::add_experts({h_ffn().view(), a.chosen, all.gate, all.up, all.down, x_out_->view()},
                      p_.cpu);
  if (!c.shared_expert_size) return;
  const View<float> some = hidden(l_.shared);
  kernel::multiply_by_gate(GateActivation::silu, a.shared_gate.view(), a.shared_up.view(), some,
                           p_.cpu);
  for (int64_t row = 0; l_.shared_gate && row < p_.rows(); ++row)
    for (int64_t i = 0; i < c.shared_expert_size; ++i) some(row, i) *= a.shared_weight[row];
  linear(p_, l_.shared.down, some, x_out_->view(), Store::add);
}

}  // namespace deltasane::gated_delta
