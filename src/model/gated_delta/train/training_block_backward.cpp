#include <algorithm>
#include <cmath>

#include "kernel/activation/activation.h"
#include "kernel/decay/decay.h"
#include "kernel/norm/rms.h"
#include "kernel/rows/add_rows.h"
#include "kernel/rows/row_sums.h"
#include "kernel/sane/tau.h"
#include "kernel/short_conv/short_conv.h"
#include "model/gated_delta/block_backward.h"
#include "model/gated_delta/train/training_block.h"

namespace deltasane::gated_delta {

using kernel::GateActivation;
using kernel::Store;

void TrainingBlock::backward(Tensor<float>& dx) {
  dx_ = &dx;
  block_backward(*this);
}

View<float> TrainingBlock::half_backward(Slot norm, const Tensor<float>& y) {
  if (!l_.norms_after) return dx_->view();
  kernel::rms_norm_backward({y.view(), c.channels, p_.w(norm), float(c.norm_eps), dx_->view(),
                             s.dout.view(), Store::overwrite, p_.dw(norm)},
                            p_.cpu);
  return s.dout.view();
}

void TrainingBlock::norm_before_backward(Slot norm, const Tensor<float>& x) {
  if (l_.norms_after) return kernel::add_rows(s.dh.view(), dx_->view(), p_.cpu);
  kernel::rms_norm_backward({x.view(), c.channels, p_.w(norm), float(c.norm_eps), s.dh.view(),
                             dx_->view(), Store::add, p_.dw(norm)},
                            p_.cpu);
}

void TrainingBlock::norm_before_ffn_backward() { norm_before_backward(l_.ffn_norm, a.x_ffn); }

void TrainingBlock::norm_before_mixer_backward() {
  if (!l_.norms_after) clear_padding(p_, s.dh);
  norm_before_backward(l_.mixer_norm, a.x);
}

void TrainingBlock::network_backward(const LayerSlots::Network& weights, Tensor<float>& gate,
                                     Tensor<float>& up, View<const float> dy, Store store) {
  const View<float> dhidden = narrow(s.dhidden, gate.shape()[1]);
  const View<float> dgate = narrow(s.dffn_gate, gate.shape()[1]);
  linear_backward(p_, weights.down, hidden(weights), dy, dhidden);
  kernel::multiply_by_gate_backward(
      {GateActivation::silu, gate.view(), up.view(), dhidden, dgate, dhidden}, p_.cpu);
  linear_backward(p_, weights.gate, h_ffn().view(), dgate, s.dh.view(), store);
  linear_backward(p_, weights.up, h_ffn().view(), dhidden, s.dh.view(), Store::add);
}

void TrainingBlock::add_network_backward() {
  const View<float> dy = half_backward(l_.ffn_norm, a.ffn_out);
  kernel::multiply_by_gate(GateActivation::silu, a.ffn_gate.view(), a.ffn_up.view(), hidden(l_.ffn),
                           p_.cpu);
  network_backward(l_.ffn, a.ffn_gate, a.ffn_up, dy, Store::overwrite);
}

void TrainingBlock::add_experts_backward() {
  const View<float> dy = dx_->view();  // norms come after attention with a dense network only
  const ExpertMatrices all = expert_matrices();
  s.dh.fill(0);
  kernel::add_experts_backward(
      {h_ffn().view(), a.chosen, all.gate, all.up, all.down, {}},
      {dy, s.dh.view(), s.dweight, p_.dmatrix(l_.all_experts.gate),
       p_.dmatrix(l_.all_experts.up), p_.dmatrix(l_.all_experts.down)},
      p_.cpu);
  kernel::route_backward(router(), {a.router.view(), a.chosen, s.dweight, s.drouter.view()},
                         p_.cpu);
  linear_backward(p_, l_.router, h_ffn().view(), s.drouter.view(), s.dh.view(), Store::add);
  if (!c.shared_expert_size) return;
  const View<float> some = hidden(l_.shared);
  kernel::multiply_by_gate(GateActivation::silu, a.shared_gate.view(), a.shared_up.view(), some,
                           p_.cpu);
  if (!l_.shared_gate)
    return network_backward(l_.shared, a.shared_gate, a.shared_up, dy, Store::add);
  // y = down(weight hidden) = weight down(hidden): through dy' = weight dy, and of the weight,
  // hidden down' dy
  const View<float> dhidden = narrow(s.dhidden, c.shared_expert_size);
  kernel::matmul_nn(dy, p_.matrix(l_.shared.down), dhidden, p_.cpu);
  for (int64_t row = 0; row < p_.rows(); ++row) {
    float sum = 0;
    for (int64_t i = 0; i < c.shared_expert_size; ++i) sum += some(row, i) * dhidden(row, i);
    s.dshared_weight[row] = sum;
    for (int64_t i = 0; i < c.channels; ++i)
      s.dout.view()(row, i) = a.shared_weight[row] * dy(row, i);
  }
  kernel::activate_backward(kernel::Activation::sigmoid, a.shared_weight.view(),
                            s.dshared_weight.view(), p_.cpu);
  linear_backward(p_, l_.shared_gate, h_ffn().view(), s.dshared_weight.view(), s.dh.view(),
                  Store::add);
  network_backward(l_.shared, a.shared_gate, a.shared_up, s.dout.view(), Store::add);
}

void TrainingBlock::add_mixer_output_backward() {
  const View<float> dy = half_backward(l_.mixer_norm, a.mixer_out);
  linear_backward(p_, l_.output, mixed(), dy, narrow(s.dmixed, l_.output->shape[1]));
}

void TrainingBlock::gated_output_norm_backward() {
  kernel::RmsNormGradient op{a.read.view(),
                             c.value_size,
                             p_.w(l_.output_norm),
                             float(c.output_norm_eps),
                             narrow(s.dmixed, c.value_channels()),
                             s.dread.view(),
                             Store::overwrite,
                             p_.dw(l_.output_norm)};
  if (c.gate != OutputGate::none) op.gate = gate(), op.dgate = dgate();
  op.activation = c.gate == OutputGate::silu ? GateActivation::silu : GateActivation::sigmoid;
  kernel::rms_norm_backward(op, p_.cpu);
}

void TrainingBlock::recurrence_backward() {
  normalize_keys(), scale_beta();
  const kernel::DeltaRule<float> op = delta_rule();
  const int64_t keys = c.key_channels();
  const auto like = [&](const View<float>& rows, const Shape& shape) -> View<float> {
    return {rows.data, shape, {p_.time * rows.stride[0], rows.stride[0], shape[3], 1}};
  };
  kernel::DeltaRuleGradient<float> d;
  d.dy = like(s.dread.view(), op.y.shape);
  d.dr = like(s.dqk.view().slice(1, 0, keys), op.r.shape);
  d.dk = like(s.dqk.view().slice(1, keys, keys), op.k.shape);
  d.dv = like(s.dconvolved.view().slice(1, 2 * keys, c.value_channels()), op.v.shape);
  if (op.w) d.dw = {s.ddecay.data(), op.w.shape};
  if (l_.beta) d.dbeta = {s.dbeta.data(), op.beta.shape};
  if (op.tau) d.dtau = {s.dtau.data(), op.tau.shape};
  const CountsTime counted(p_);
  kernel::delta_rule_backward(op, d, p_.cpu);
}

void TrainingBlock::decay_and_beta_backward() {
  if (c.decays()) {
    const std::vector<float> rates = decay_rates();
    kernel::DecayGradient op{a.decay_z.view(),    c.value_heads,
                             rates.data(),        p_.w(l_.decay_bias),
                             s.ddecay.view(),     p_.dw(l_.decay_log_rate),
                             p_.dw(l_.decay_bias)};
    if (c.decay_bound != 0) op.bound = float(c.decay_bound);
    kernel::decay_backward(op, p_.cpu);
  }
  if (!l_.beta) return;
  for (float& one : s.dbeta.span()) one *= float(c.beta_scale);
  kernel::activate_backward(kernel::Activation::sigmoid, a.beta.view(), s.dbeta.view(), p_.cpu);
}

void TrainingBlock::convolve_backward() {
  const int64_t keys = c.key_channels();
  const View<float> all = a.convolved.view(), dqk = s.dqk.view();
  kernel::l2_norm_backward(all.slice(1, 0, keys), c.key_size, l2_eps,
                           float(1 / std::sqrt(double(c.key_size))), dqk.slice(1, 0, keys), p_.cpu);
  kernel::l2_norm_backward(all.slice(1, keys, keys), c.key_size, l2_eps, 1,
                           dqk.slice(1, keys, keys), p_.cpu);
  for (int64_t row = 0; row < p_.rows(); ++row)
    std::copy_n(dqk.at(row), 2 * keys, s.dconvolved.view().at(row));
  const Tensor<float> weight = taps_first(l_.convolution);
  Tensor<float> dweight(weight.shape());
  const int64_t taps = weight.shape()[0], channels = weight.shape()[1];
  for (int64_t i = 0; i < p_.sequences; ++i)
    kernel::short_conv_backward({of(i, a.qkv.view()), taps, weight.data(),
                                 of(i, s.dconvolved.view()), of(i, s.dqkv.view()), dweight.data()},
                                p_.cpu);
  if (!l_.convolution) return;
  for (int64_t i = 0; i < taps * channels; ++i)
    p_.dw(l_.convolution)[i] += dweight[i % taps * channels + i / taps];
}

void TrainingBlock::project_recurrent_backward() {
  const View<float> dh = s.dh.view();
  linear_backward(p_, l_.qkv, h().view(), s.dqkv.view(), dh);
  if (l_.beta) linear_backward(p_, l_.beta, h().view(), s.dbeta.view(), dh, Store::add);
  if (l_.decay) linear_backward(p_, l_.decay, h().view(), s.ddecay.view(), dh, Store::add);
  const auto low_rank = [&](Slot down, Slot up, Tensor<float>& low, View<const float> dy) {
    const View<float> dlow = narrow(s.dlow, low.shape()[1]);
    linear_backward(p_, up, low.view(), dy, dlow);
    linear_backward(p_, down, h().view(), dlow, dh, Store::add);
  };
  if (l_.decay_down) low_rank(l_.decay_down, l_.decay_up, a.decay_low, s.ddecay.view());
  if (l_.gate_bias) {
    float* const totals[] = {p_.dw(l_.gate_bias)};
    kernel::each_row_summing(p_.rows(), gate_columns(), totals, p_.cpu,
                             [&](int64_t row, auto partial) {
                               for (int64_t i = 0; i < gate_columns(); ++i)
                                 partial(0)[i] += dgate()(row, i);
                             });
  }
  if (l_.gate) linear_backward(p_, l_.gate, h().view(), dgate(), dh, Store::add);
  if (l_.gate_down) low_rank(l_.gate_down, l_.gate_up, a.gate_low, dgate());
}

// Onto dh of the tokens that end a chunk.
void TrainingBlock::tau_backward() {
  if (!p_.sane || p_.chunks() == 0) return;
  const CountsTime counted(p_);
  kernel::tau_backward(a.z.span(), p_.sane->alpha, s.dtau.span());
  factor_backward(p_.without_rounding(), l_.w_tau, a.x_tau.view(), s.dtau.view(), s.dx_tau.view());
  for (int64_t n = 0; n < p_.sequences * p_.chunks(); ++n) {
    const int64_t t = (n % p_.chunks() + 1) * p_.sane->chunk - 1;
    float* const to = s.dh.view().at(n / p_.chunks() * p_.time + t);
    for (int64_t i = 0; i < c.channels; ++i) to[i] += s.dx_tau.view()(n, i);
  }
}

}  // namespace deltasane::gated_delta
