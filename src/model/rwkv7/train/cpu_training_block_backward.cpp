// Mixes are computed again. Gradients reuse buffers that are no longer needed.
#include <vector>

#include "kernel/sane/tau.h"
#include "model/rwkv7/block_backward.h"
#include "model/rwkv7/train/cpu_training_block.h"

namespace deltasane::rwkv7 {

using kernel::Store;

void CpuTrainingBlock::backward(Tensor<float>& dx) {
  dx_ = &dx;
  block_backward(*this);
}

void CpuTrainingBlock::add_hidden_backward() {
  linear_backward(c_, l_.ffn_value, act_.hidden.view(), dx_->view(), s_.dhidden.view());
}

// The gradient of the mix is in dy.
void CpuTrainingBlock::hidden_backward(Activation activation) {
  kernel::activate_backward(activation, act_.hidden.view(), s_.dhidden.view(), c_.cpu);
  make_mixes(Half::channel_mix);
  linear_backward(c_, l_.ffn_key, mix(Mix::k).view(), s_.dhidden.view(), s_.dy.view());
}

void CpuTrainingBlock::norm_shift_backward(Half half) {
  const bool of_time = half == Half::time_mix;
  Tensor<float>& u = of_time ? act_.u : act_.u_ffn;
  std::vector<const float*> mu;
  std::vector<float*> dmu;
  const auto add = [&](Slot slot) { mu.push_back(c_.w(slot)), dmu.push_back(c_.dw(slot)); };
  std::vector<Tensor<float>*> dmix{&s_.dy};
  if (of_time) {
    for (const Slot slot : l_.mu) add(slot);
    dmix = {&s_.sr, &s_.dy, &s_.sk, &s_.sv, &s_.db, &s_.dr};  // by Mix, from below
  } else {
    add(l_.ffn_mu);
  }
  for (int64_t i = 0; i < c_.sequences; ++i) {
    std::vector<View<const float>> dout;
    for (Tensor<float>* one : dmix) dout.push_back(sequence(*one, i));
    kernel::token_shift_backward({sequence(u, i), mu, dout, sequence(s_.du, i), dmu}, c_.cpu);
  }
  if (of_time && c_.sane) tau_mix_backward();
  clear_padding(c_, s_.du);
  const NormSlots& norm = of_time ? l_.ln1 : l_.ln2;
  kernel::layer_norm_backward({.x = (of_time ? act_.x : act_.x_ffn).view(),
                               .weight = c_.w(norm.weight),
                               .eps = c_.shape.norms.layer_eps,
                               .dy = s_.du.view(),
                               .dx = dx_->view(),
                               .dweight = c_.dw(norm.weight),
                               .dbias = c_.dw(norm.bias)},
                              c_.cpu);
}

void CpuTrainingBlock::add_output_backward() {
  linear_backward(c_, l_.output, act_.y.view(), dx_->view(), s_.dy.view());
}

void CpuTrainingBlock::time_mix_output_backward() {
  kernel::time_mix_output_backward({.head_size = c_.shape.head_size,
                                    .y = act_.read.view(),
                                    .r = act_.r.view(),
                                    .k = act_.k.view(),
                                    .v = act_.v.view(),
                                    .g = act_.g.view(),
                                    .weight = c_.w(l_.ln_x.weight),
                                    .bias = c_.w(l_.ln_x.bias),
                                    .r_k = c_.w(l_.r_k),
                                    .eps = c_.shape.norms.group_eps,
                                    .dy = s_.dy.view(),
                                    .dr = s_.dr.view(),
                                    .dk = s_.dk.view(),
                                    .dv = s_.dv.view(),
                                    .dg = s_.dg.view(),
                                    .dweight = c_.dw(l_.ln_x.weight),
                                    .dbias = c_.dw(l_.ln_x.bias),
                                    .dr_k = c_.dw(l_.r_k)},
                                   c_.cpu);
}

void CpuTrainingBlock::recurrence_backward() {
  const kernel::DeltaRule<float> op = delta_rule();
  const Shape tokens = op.y.shape;
  kernel::DeltaRuleGradient<float> d;
  d.dy = {s_.dy.data(), tokens};
  d.dr = {s_.sr.data(), tokens}, d.dw = {s_.dw.data(), tokens}, d.dk = {s_.sk.data(), tokens};
  d.dv = {s_.sv.data(), tokens}, d.da = {s_.da.data(), tokens}, d.db = {s_.db.data(), tokens};
  if (op.tau) d.dtau = {s_.dtau.data(), op.tau.shape};
  {
    const CountsTime counted(c_);
    kernel::delta_rule_backward(op, d, c_.cpu);
  }
  kernel::add_rows(s_.sr.view(), s_.dr.view(), c_.cpu);
  kernel::add_rows(s_.sk.view(), s_.dk.view(), c_.cpu);
  kernel::add_rows(s_.sv.view(), s_.dv.view(), c_.cpu);
}

void CpuTrainingBlock::time_mix_inputs_backward() {
  kernel::TimeMixInputsGradient in{.head_size = c_.shape.head_size,
                                   .w = act_.raw_w.view(),
                                   .a = act_.raw_a.view(),
                                   .k = act_.raw_k.view(),
                                   .v = act_.raw_v.view(),
                                   .gate = {},
                                   .v_first = {},
                                   .w0 = c_.w(l_.w0),
                                   .a0 = c_.w(l_.a0),
                                   .v0 = is_first_ ? nullptr : c_.w(l_.v0),
                                   .k_k = c_.w(l_.k_k),
                                   .k_a = c_.w(l_.k_a),
                                   .dw = s_.dw.view(),
                                   .da = s_.da.view(),
                                   .dk = s_.dk.view(),
                                   .dv = s_.dv.view(),
                                   .db = s_.db.view(),
                                   .dgate = {},
                                   .dv_first = {},
                                   .dw0 = c_.dw(l_.w0),
                                   .da0 = c_.dw(l_.a0),
                                   .dv0 = is_first_ ? nullptr : c_.dw(l_.v0),
                                   .dk_k = c_.dw(l_.k_k),
                                   .dk_a = c_.dw(l_.k_a),
                                   .key_norm = c_.shape.norms.key};
  if (!is_first_) {
    in.gate = act_.gate.view(), in.v_first = v_first_.view();
    in.dgate = s_.dgate.view(), in.dv_first = dv_first_.view();
  }
  kernel::time_mix_inputs_backward(in, c_.cpu);
}

void CpuTrainingBlock::take_v_first_gradient() {
  kernel::add_rows(dv_first_.view(), s_.dv.view(), c_.cpu);
}

// From dtau to the gradient of tau's mix.
void CpuTrainingBlock::tau_backward() {
  if (!c_.sane || c_.chunks() == 0) return;
  const CountsTime counted(c_);
  kernel::tau_backward(act_.z.span(), c_.sane->alpha, s_.dtau.span());
  factor_backward(c_.without_rounding(), l_.w_tau, act_.x_tau.view(), s_.dtau.view(),
                  s_.dx_tau.view());
}

// From there to du.
void CpuTrainingBlock::tau_mix_backward() {
  const CountsTime counted(c_);
  const int64_t channels = c_.shape.channels, chunks = c_.chunks();
  if (chunks == 0) return;
  const float* mu = c_.w(l_.x_tau);
  float* dmu = c_.dw(l_.x_tau);
  for (int64_t n = 0; n < c_.sequences * chunks; ++n) {
    const int64_t t = (n % chunks + 1) * c_.sane->chunk - 1, row = n / chunks * c_.time + t;
    const float* u = act_.u.data() + row * channels;
    float* du = s_.du.data() + row * channels;
    for (int64_t i = 0; i < channels; ++i) {
      const float d = s_.dx_tau[n * channels + i], before = t > 0 ? u[i - channels] : 0.0f;
      du[i] += d * (1.0f - mu[i]);
      if (t > 0) du[i - channels] += d * mu[i];
      dmu[i] += d * (before - u[i]);
    }
  }
}

void CpuTrainingBlock::project_backward(std::span<const Projection> all) {
  make_mixes(Half::time_mix);
  // sr, sk, sv, du, dy and db are free by now; these are the gradients of mixes in sr, sk, sv
  Tensor<float>* const dout[] = {&s_.dr, &s_.dk, &s_.dv};
  Tensor<float>* const dmix[] = {&s_.sr, &s_.sk, &s_.sv};
  for (const Projection& one : all)
    linear_backward(c_, l_.of(one), mix(one.mix).view(), dout[size_t(one.matrix)]->view(),
                    dmix[size_t(one.matrix)]->view());
}

void CpuTrainingBlock::low_rank_backward(const LowRank& pair) {
  const Tensor<float>* const dout[] = {&s_.dw, &s_.da, &s_.dg, &s_.dgate};
  Tensor<float>* const dmix[] = {&s_.dy, &s_.db, &s_.dr, &s_.sv};
  const bool shares_mix = pair.mix == Mix::v;  // with a projection, whose gradient is there
  const Tensor<float>& y = low(pair);
  const View<float> dlow = s_.low(y.shape()[1]);
  factor_backward(c_, l_.of(pair).up, y.view(), dout[pair.name]->view(), dlow);
  if (pair.between) kernel::activate_backward(*pair.between, y.view(), dlow, c_.cpu);
  factor_backward(c_, l_.of(pair).down, mix(pair.mix).view(), dlow, dmix[pair.name]->view(),
                  shares_mix ? Store::add : Store::overwrite);
}

}  // namespace deltasane::rwkv7
