#include "model/gated_delta/train/gpu/training_block.h"

#include <cmath>

#include "kernel/activation/gated_cuda.h"
#include "kernel/norm/rms_cuda.h"
#include "kernel/rounded/cuda.h"
#include "kernel/sane/cuda.h"
#include "model/gated_delta/block_backward.h"
#include "model/gated_delta/heads.h"

namespace deltasane::gated_delta::gpu {

using kernel::GateActivation;
using kernel::Store;

template <class Real>
void GpuTrainingBlock<Real>::forward(float* x_out) {
  x_out_ = x_out;
  block_forward(*this);
}

template <class Real>
void GpuTrainingBlock<Real>::backward(float* dx) {
  dx_ = dx;
  block_backward(*this);
}

template <class Real>
void GpuTrainingBlock<Real>::as_it_is(const float* x, Real* to) {
  const int64_t numbers = p_.size.rows() * c.channels;
  if constexpr (std::is_same_v<Real, bf16>)
    kernel::cuda::rounded(x, to, numbers, p_.gpu);
  else
    copy_on_gpu(to, x, uint64_t(numbers) * sizeof(float), p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::norm_before(const float* x, Slot weight, const uint8_t* present,
                                         Real* h) {
  p_.row_operation();
  if (l_.norms_after) return as_it_is(x, h);
  kernel::cuda::RmsNorm<float, Real> op;
  op.rows = p_.size.rows(), op.size = c.channels, op.x = x, op.x_step = op.y_step = c.channels;
  op.weight = p_.w(weight), op.eps = float(c.norm_eps), op.y = h, op.present = present;
  kernel::cuda::rms_norm(op, p_.gpu);
}

// Whoever changes dx leaves it rounded.
template <class Real>
void GpuTrainingBlock<Real>::norm_before_backward(const float* x, Slot weight,
                                                  const uint8_t* present) {
  p_.row_operation();
  if (l_.norms_after) {
    if constexpr (std::is_same_v<Real, bf16>) as_it_is(dx_, s.dresult);
    return;
  }
  kernel::cuda::RmsNormGradient<float, float> op;
  op.rows = p_.size.rows(), op.size = c.channels, op.x = x, op.weight = p_.w(weight);
  op.eps = float(c.norm_eps), op.dy = s.dh, op.dx = dx_, op.add = true;
  op.dweight = p_.dw(weight), op.present = present, op.scratch = s.sums;
  if constexpr (std::is_same_v<Real, bf16>) op.rounded = s.dresult;
  kernel::cuda::rms_norm_backward(op, p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::add_half(Slot matrix, const Real* y, const float* stream, Slot norm,
                                      float* out, float* sum) {
  if (!l_.norms_after) return linear_onto<Real>(p_, matrix, y, stream, sum);
  linear<Real>(p_, matrix, y, out);
  if (!sum) return;
  p_.row_operation();
  copy_on_gpu(sum, stream, uint64_t(p_.size.rows() * c.channels) * sizeof(float), p_.gpu);
  kernel::cuda::RmsNorm<float, float> op;
  op.rows = p_.size.rows(), op.size = c.channels, op.x = out, op.x_step = op.y_step = c.channels;
  op.weight = p_.w(norm), op.eps = float(c.norm_eps), op.y = sum, op.add = true;
  kernel::cuda::rms_norm(op, p_.gpu);
}

template <class Real>
const Real* GpuTrainingBlock<Real>::dhalf(Slot norm, const float* out) {
  if (!l_.norms_after) return as_products_read<Real>(dx_, s.dresult);
  kernel::cuda::RmsNormGradient<float, float> op;
  op.rows = p_.size.rows(), op.size = c.channels, op.x = out, op.weight = p_.w(norm);
  op.eps = float(c.norm_eps), op.dy = dx_, op.dx = s.dh, op.dweight = p_.dw(norm);
  op.scratch = s.sums;
  if constexpr (std::is_same_v<Real, bf16>) op.rounded = s.dresult;
  p_.row_operation();
  kernel::cuda::rms_norm_backward(op, p_.gpu);
  return as_products_read<Real>(s.dh, s.dresult);
}

template <class Real>
void GpuTrainingBlock<Real>::project_recurrent() {
  linear<Real>(p_, l_.qkv, a.h, a.qkv);
  if (const int64_t columns = gates().all)
    p_.template multiply<float>({.form = Form::nt,
                                 .m = p_.size.rows(),
                                 .n = columns,
                                 .k = c.channels,
                                 .a = a.h,
                                 .b = p_.matrix(gate_rows()),
                                 .c = a.z});
  if (l_.decay_down) {
    linear<Real>(p_, l_.decay_down, a.h, a.decay_low);
    linear<Real>(p_, l_.decay_up, a.decay_low, a.z_decay);
  }
  if (l_.gate) linear<Real>(p_, l_.gate, a.h, a.gate);
  if (l_.gate_down) {
    linear<Real>(p_, l_.gate_down, a.h, a.gate_low);
    linear<Real>(p_, l_.gate_up, a.gate_low, a.gate);
  }
}

// From h of the tokens that end a chunk.
template <class Real>
void GpuTrainingBlock<Real>::tau() {
  const int64_t chunks = p_.size.chunks;
  if (!chunks) return;
  p_.row_operation();
  const int64_t chunk = p_.sane->chunk;
  const uint64_t bytes = uint64_t(c.channels) * sizeof(Real);
  const bool regular = p_.size.time % chunk == 0;
  const int64_t calls = regular ? 1 : p_.size.sequences, of_call = p_.ends() / calls;
  for (int64_t i = 0; i < calls; ++i)
    copy_rows_on_gpu({a.x_tau + i * chunks * c.channels, bytes},
                     {a.h + (i * p_.size.time + chunk - 1) * c.channels, uint64_t(chunk) * bytes},
                     bytes, of_call, p_.gpu);
  factor<Real>(p_, l_.w_tau, p_.ends(), a.x_tau, a.z_tau);
  p_.row_operation();
  const int64_t heads = c.value_heads;
  kernel::cuda::tau_forward(a.z_tau, p_.ends() * heads, p_.sane->alpha, a.tau, p_.gpu);
  if (p_.whole) kernel::cuda::unbound_tau(p_.whole, p_.ends(), heads, a.tau, p_.gpu);
}

// (tap, channel), as the operator has them.
template <class Real>
const float* GpuTrainingBlock<Real>::taps_first() {
  if (!l_.convolution) return p_.ones;
  kernel::cuda::taps_first(p_.w(l_.convolution), c.mixed_channels(), c.taps, s.convolution, p_.gpu);
  return s.convolution;
}

template <class Real>
void GpuTrainingBlock<Real>::convolve() {
  p_.row_operation();
  kernel::cuda::ShortConv<Real> op;
  op.rows = p_.ragged, op.channels = op.step = c.mixed_channels();
  op.taps = taps(), op.x = a.qkv, op.weight = taps_first();
  op.parts[0] = {a.q_raw, c.key_channels()}, op.parts[1] = {a.k_raw, c.key_channels()};
  op.parts[2] = {a.v, c.value_channels()};
  kernel::cuda::short_conv(op, p_.gpu);
  kernel::cuda::L2Norms<Real> norms{p_.size.rows(),     c.key_heads, c.key_size, l2_eps,
                                    {a.q_raw, a.k_raw}, {a.r, a.k},  {}};
  norms.scale[0] = float(1 / std::sqrt(double(c.key_size))), norms.scale[1] = 1;
  kernel::cuda::l2_norms(norms, p_.gpu);
}

template <class Real>
kernel::cuda::DecayAndBeta GpuTrainingBlock<Real>::decay() const {
  kernel::cuda::DecayAndBeta op;
  op.rows = p_.size.rows(), op.heads = c.value_heads;
  if (c.decays()) {
    op.size = c.decays() / c.value_heads, op.z = a.z_decay, op.z_step = gates().decay_step;
    op.g = a.g;
    op.rate = s.rates, op.bias = p_.w(l_.decay_bias), op.bound = float(c.decay_bound);
  }
  if (l_.beta) op.z_beta = a.z, op.beta_step = gates().all;
  op.beta_scale = float(c.beta_scale), op.beta = a.beta;
  return op;
}

template <class Real>
void GpuTrainingBlock<Real>::decay_and_beta() {
  p_.row_operation();
  if (c.decays())
    kernel::cuda::decay_rates(p_.w(l_.decay_log_rate), c.value_heads, s.rates, p_.gpu);
  kernel::cuda::decay_and_beta(decay(), p_.gpu);
}

template <class Real>
kernel::cuda::GatedRule GpuTrainingBlock<Real>::by_tiles() const {
  kernel::cuda::GatedRule op = gpu::by_tiles(c, p_.size);
  if constexpr (std::is_same_v<Real, bf16>) op.r = a.r, op.k = a.k, op.v = a.v, op.y = a.read;
  op.g = c.decays() ? a.g : nullptr, op.beta = a.beta, op.tau = tau_or_none();
  op.states = a.states;
  return op;
}

template <class Real>
kernel::cuda::TokenRule<Real> GpuTrainingBlock<Real>::by_tokens() const {
  kernel::cuda::TokenRule<Real> op = gpu::by_tokens<Real>(c, p_.size);
  op.rows = p_.ragged;
  op.r = a.r, op.k = a.k, op.v = a.v, op.g = c.decays() ? a.g : nullptr, op.beta = a.beta;
  op.tau = tau_or_none(), op.y = a.read, op.saved = a.states;
  if (p_.sane) op.chunk = p_.sane->chunk;
  return op;
}

template <class Real>
void GpuTrainingBlock<Real>::recurrence() {
  p_.clock.begin(Work::recurrence_forward, p_.gpu);
  if (has_tiles())
    kernel::cuda::gated_rule(by_tiles(), p_.rule_scratch, p_.gpu);
  else
    kernel::cuda::token_rule(by_tokens(), p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::gated_output_norm() {
  kernel::cuda::RmsNorm<Real, Real> op;
  op.rows = p_.size.rows(), op.heads = c.value_heads, op.size = c.value_size;
  op.x = a.read, op.y = a.mixed, op.x_step = op.y_step = op.gate_step = c.value_channels();
  op.weight = p_.w(l_.output_norm), op.eps = float(c.output_norm_eps);
  if (c.gate != OutputGate::none) op.gate = a.gate;
  if (l_.gate_bias) op.gate_bias = p_.w(l_.gate_bias);
  op.activation = gate_activation();
  p_.row_operation();
  kernel::cuda::rms_norm(op, p_.gpu);
}

// The gates' and the others' rows are one batched product.
template <class Real>
void GpuTrainingBlock<Real>::add_network() {
  const int64_t rows = p_.size.rows(), numbers = rows * c.feed_forward;
  p_.template multiply<Real>({.form = Form::nt,
                              .m = rows,
                              .n = c.feed_forward,
                              .k = c.channels,
                              .a = a.h_ffn,
                              .b = p_.matrix(l_.ffn.gate),
                              .c = a.ffn_gate,
                              .count = 2,
                              .stride_b = l_.ffn.up->offset - l_.ffn.gate->offset,
                              .stride_c = numbers});
  if (!x_out_ && !l_.norms_after) return;
  p_.row_operation();
  kernel::cuda::multiply_by_gate(
      kernel::cuda::GatedRows<Real>{GateActivation::silu, rows, c.feed_forward, a.ffn_gate,
                                    c.feed_forward, a.ffn_up, s.hidden},
      p_.gpu);
  add_half(l_.ffn.down, s.hidden, a.x_ffn, l_.ffn_norm, a.ffn_out, x_out_);
}

template <class Real>
void GpuTrainingBlock<Real>::add_network_backward() {
  const int64_t rows = p_.size.rows(), numbers = rows * c.feed_forward;
  const Real* const dresult = dhalf(l_.ffn_norm, a.ffn_out);
  linear_input_backward<Real>(p_, l_.ffn.down, dresult, s.dffn_up);
  p_.row_operation();
  kernel::cuda::multiply_by_gate_backward(
      kernel::cuda::GatedRowsGradient<Real>{GateActivation::silu, numbers, a.ffn_gate, a.ffn_up,
                                            s.dffn_up, s.dffn_gate, s.dffn_up, s.hidden},
      p_.gpu);
  linear_weight_backward<Real>(p_, l_.ffn.down, s.hidden, dresult);
  p_.template multiply<float>({.form = Form::tn,
                               .m = c.feed_forward,
                               .n = c.channels,
                               .k = rows,
                               .a = s.dffn_gate,
                               .b = a.h_ffn,
                               .c = p_.dw(l_.ffn.gate),
                               .add = true,
                               .count = 2,
                               .stride_a = numbers,
                               .stride_c = l_.ffn.up->offset - l_.ffn.gate->offset});
  linear_input_backward<Real>(p_, l_.ffn.gate, s.dffn_gate, dh(), onto_dh());
  linear_input_backward<Real>(p_, l_.ffn.up, s.dffn_up, dh(), Store::add);
}

template <class Real>
void GpuTrainingBlock<Real>::gated_output_norm_backward() {
  kernel::cuda::RmsNormGradient<Real, Real> op;
  op.rows = p_.size.rows(), op.heads = c.value_heads, op.size = c.value_size;
  op.x = a.read, op.weight = p_.w(l_.output_norm), op.eps = float(c.output_norm_eps);
  op.dy = s.dmixed, op.dx = s.dread, op.dweight = p_.dw(l_.output_norm), op.scratch = s.sums;
  if (c.gate != OutputGate::none) op.gate = a.gate, op.dgate = s.dgate;
  if (l_.gate_bias) op.gate_bias = p_.w(l_.gate_bias);
  op.activation = gate_activation();
  p_.row_operation();
  kernel::cuda::rms_norm_backward(op, p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::recurrence_backward() {
  p_.clock.begin(Work::recurrence_backward, p_.gpu);
  float *const dtau = p_.size.chunks ? s.dtau : nullptr, *const dg = c.decays() ? s.dg : nullptr;
  if constexpr (std::is_same_v<Real, bf16>) {
    if (has_tiles())
      return kernel::cuda::gated_rule_backward(by_tiles(),
                                               {.dy = s.dread,
                                                .dr = s.dr,
                                                .dk = s.dk,
                                                .dv = s.dv,
                                                .dg = dg,
                                                .dbeta = s.dbeta,
                                                .dtau = dtau},
                                               p_.rule_scratch, p_.gpu);
  }
  kernel::cuda::token_rule_backward<Real>(by_tokens(),
                                          {.dy = s.dread,
                                           .dr = s.dr,
                                           .dk = s.dk,
                                           .dv = s.dv,
                                           .dg = dg,
                                           .dbeta = s.dbeta,
                                           .dtau = dtau,
                                           .scratch = s.rule},
                                          p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::decay_and_beta_backward() {
  p_.row_operation();
  kernel::cuda::DecayAndBetaGradient<Real> op;
  op.op = decay(), op.dg = s.dg, op.dbeta = s.dbeta, op.scratch = s.sums;
  op.dz = s.dz_decay, op.dz_beta = s.dz;
  if (c.decays()) {
    kernel::cuda::decay_rates(p_.w(l_.decay_log_rate), c.value_heads, s.rates, p_.gpu);
    op.dlog_rate = p_.dw(l_.decay_log_rate), op.dbias = p_.dw(l_.decay_bias);
  }
  kernel::cuda::decay_and_beta_backward(op, p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::convolve_backward() {
  p_.row_operation();
  kernel::cuda::L2NormsGradient<Real> norms{p_.size.rows(),     c.key_heads,  c.key_size, l2_eps,
                                            {a.q_raw, a.k_raw}, {s.dr, s.dk}, {}};
  norms.scale[0] = float(1 / std::sqrt(double(c.key_size))), norms.scale[1] = 1;
  kernel::cuda::l2_norms_backward(norms, p_.gpu);
  kernel::cuda::ShortConvGradient<Real> op;
  op.rows = {p_.size.sequences, p_.size.time, c.mixed_channels()};
  op.taps = taps(), op.x = a.qkv, op.weight = taps_first(), op.dx = s.dqkv;
  op.parts[0] = {s.dr, c.key_channels()}, op.parts[1] = {s.dk, c.key_channels()};
  op.parts[2] = {s.dv, c.value_channels()};
  op.dweight = l_.convolution ? p_.dw(l_.convolution) : nullptr, op.scratch = s.sums;
  kernel::cuda::short_conv_backward(op, p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::project_recurrent_backward() {
  linear_backward<Real>(p_, l_.qkv, a.h, s.dqkv, s.dh);
  if (const int64_t columns = gates().all, rows = p_.size.rows(); columns > 0) {
    p_.template multiply<float>({.form = Form::tn,
                                 .m = columns,
                                 .n = c.channels,
                                 .k = rows,
                                 .a = s.dz,
                                 .b = a.h,
                                 .c = p_.dw(gate_rows()),
                                 .add = true});
    p_.template multiply<float>({.form = Form::nn,
                                 .m = rows,
                                 .n = c.channels,
                                 .k = columns,
                                 .a = s.dz,
                                 .b = p_.matrix(gate_rows()),
                                 .c = s.dh,
                                 .add = true});
  }
  const auto low_rank = [&](Slot down, Slot up, const Real* low, const Real* dy) {
    linear_backward<Real>(p_, up, low, dy, s.dlow);
    linear_backward<Real>(p_, down, a.h, s.dlow, s.dh, Store::add);
  };
  if (l_.decay_down) low_rank(l_.decay_down, l_.decay_up, a.decay_low, s.dz_decay);
  if (l_.gate_bias) {
    p_.row_operation();
    kernel::cuda::column_sums<Real>(
        {p_.size.rows(), c.value_channels(), 1, s.dgate, p_.dw(l_.gate_bias), s.sums}, p_.gpu);
  }
  if (l_.gate) linear_backward<Real>(p_, l_.gate, a.h, s.dgate, s.dh, Store::add);
  if (l_.gate_down) low_rank(l_.gate_down, l_.gate_up, a.gate_low, s.dgate);
}

// Onto dh of the tokens that end a chunk.
template <class Real>
void GpuTrainingBlock<Real>::tau_backward() {
  if (!p_.size.chunks) return;
  p_.row_operation();
  kernel::cuda::tau_backward(a.z_tau, s.dtau, p_.ends() * c.value_heads, p_.sane->alpha, s.dz_tau,
                             p_.gpu);
  factor_backward<Real>(p_, l_.w_tau, p_.ends(), a.x_tau, s.dz_tau, s.dx_tau);
  p_.row_operation();
  kernel::cuda::add_chunk_ends({p_.size.sequences, p_.size.time, c.channels, p_.sane->chunk},
                               s.dx_tau, s.dh, p_.gpu);
}

template class GpuTrainingBlock<float>;
template class GpuTrainingBlock<bf16>;

}  // namespace deltasane::gated_delta::gpu
