#include "model/rwkv7/train/gpu/training_block.h"

#include "model/rwkv7/block_backward.h"
#include "model/rwkv7/train/gpu/training_block_operators.h"

namespace deltasane::rwkv7::gpu {

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
void GpuTrainingBlock<Real>::norm_shift(Half half) {
  c_.row_operation();
  kernel::cuda::norm_shift(half == Half::time_mix ? time_mix_shift() : channel_mix_shift(), c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::fork() {
  if (c_.size.chunks) c_.side->fork();
}

// All three at once.
template <class Real>
void GpuTrainingBlock<Real>::project(std::span<const Projection> all) {
  three_linear<Real>(c_, l_.of(all.front()), mix(all.front().mix), act_.r);
}

template <class Real>
void GpuTrainingBlock<Real>::low_rank(std::span<const LowRank> pairs) {
  const int64_t rows = c_.size.rows();
  for (const LowRank& pair : pairs) {
    const LayerSlots::Pair& slots = l_.of(pair);
    Real* const between = low(pair);
    factor<Real>(c_, slots.down, rows, mix(pair.mix), between);
    if (pair.between) {
      c_.row_operation();
      kernel::cuda::activate(*pair.between, between, rows * slots.down->shape[1],
                             c_.gpu);
    }
    Real* const out[] = {nullptr, act_.raw_a, act_.g, act_.gate};
    if (pair.name == LowRank::w)  // the decay's sum is float
      factor<Real>(c_, slots.up, rows, between, act_.raw_w);
    else
      factor<Real>(c_, slots.up, rows, between, out[pair.name]);
  }
}

template <class Real>
void GpuTrainingBlock<Real>::tau() {
  if (!c_.size.chunks) return;
  const GpuPass<Real> side = c_.on_side();
  factor<Real>(side, l_.w_tau, side.ends(), act_.x_tau, act_.z);
  kernel::cuda::tau_forward(act_.z, side.ends() * side.shape.heads, side.sane->alpha, act_.tau,
                           side.gpu);
  if (side.whole)
    kernel::cuda::unbound_tau(side.whole, side.ends(), side.shape.heads, act_.tau, side.gpu);
  c_.side->done();
}

template <class Real>
void GpuTrainingBlock<Real>::store_v_first() {
  copy_on_gpu(v_first_, act_.raw_v, uint64_t(c_.elements()) * sizeof(Real), c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::time_mix_inputs() {
  c_.row_operation();
  kernel::cuda::time_mix_inputs(inputs(), c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::recurrence() {
  join_side();
  c_.clock.begin(Work::recurrence_forward, c_.gpu);
  kernel::cuda::delta_rule(delta_rule(), c_.recurrence_scratch, c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::time_mix_output() {
  c_.row_operation();
  kernel::cuda::time_mix_output(output(), c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::add_output() {
  linear_onto<Real>(c_, l_.output, act_.y, x_, act_.x_ffn);
}

template <class Real>
void GpuTrainingBlock<Real>::hidden(Activation activation) {
  linear<Real>(c_, l_.ffn_key, act_.mix_ffn, act_.hidden);
  c_.row_operation();
  kernel::cuda::activate(activation, act_.hidden,
                         c_.size.rows() * c_.shape.feed_forward, c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::add_hidden() {
  if (x_out_) linear_onto<Real>(c_, l_.ffn_value, act_.hidden, act_.x_ffn, x_out_);
}

template <class Real>
void GpuTrainingBlock<Real>::add_hidden_backward() {
  linear_backward<Real>(c_, l_.ffn_value, act_.hidden, as_products_read<Real>(dx_, s_.dresult),
                        s_.dhidden);
}

// The gradient of the mix is in dy.
template <class Real>
void GpuTrainingBlock<Real>::hidden_backward(Activation activation) {
  c_.row_operation();
  kernel::cuda::activate_backward<Real>(activation, act_.hidden, s_.dhidden,
                                        c_.size.rows() * c_.shape.feed_forward, c_.gpu);
  linear_backward<Real>(c_, l_.ffn_key, act_.mix_ffn, s_.dhidden, s_.dy);
}

template <class Real>
void GpuTrainingBlock<Real>::norm_shift_backward(Half half) {
  const bool of_time = half == Half::time_mix;
  const NormSlots& norm = of_time ? l_.ln1 : l_.ln2;
  kernel::cuda::NormShiftGradient<Real> op{.op = of_time ? time_mix_shift() : channel_mix_shift(),
                                           .dx = dx_,
                                           .dweight = c_.dw(norm.weight),
                                           .dbias = c_.dw(norm.bias),
                                           .scratch = s_.sums,
                                           .dx_real = rounded_copy(s_.dresult)};
  if (of_time) {
    join_side();
    // By Mix, from project_backward and low_rank_backward.
    const Real* const dmix[] = {s_.sr, s_.dy, s_.sk, s_.sv, s_.db, s_.dr};
    for (size_t i = 0; i < l_.mu.size(); ++i) op.dout[i] = dmix[i], op.dmu[i] = c_.dw(l_.mu[i]);
    if (c_.size.chunks) op.dout_tau = s_.dx_tau;
  } else {
    op.dout[0] = s_.dy, op.dmu[0] = c_.dw(l_.ffn_mu);
  }
  c_.row_operation();
  kernel::cuda::norm_shift_backward<Real>(op, c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::add_output_backward() {
  linear_backward<Real>(c_, l_.output, act_.y, as_products_read<Real>(dx_, s_.dresult), s_.dy);
}

template <class Real>
void GpuTrainingBlock<Real>::time_mix_output_backward() {
  c_.row_operation();
  kernel::cuda::time_mix_output_backward<Real>({.op = output(),
                                                .dy = s_.dy,
                                                .dread = s_.dy,
                                                .dbonus = s_.dbonus,
                                                .dv_bonus = s_.dv,
                                                .dg = s_.dg,
                                                .dweight = c_.dw(l_.ln_x.weight),
                                                .dbias = c_.dw(l_.ln_x.bias),
                                                .dr_k = c_.dw(l_.r_k),
                                                .scratch = s_.sums},
                                               c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::recurrence_backward() {
  c_.clock.begin(Work::recurrence_backward, c_.gpu);
  kernel::cuda::delta_rule_backward<Real>(delta_rule(),
                                          {.dy = s_.dy,
                                           .dr = s_.sr,
                                           .dk = s_.sk,
                                           .dv = s_.sv,
                                           .da = s_.da,
                                           .db = s_.db,
                                           .dw = s_.dw,
                                           .dtau = c_.size.chunks ? s_.dtau : nullptr},
                                          c_.recurrence_scratch, c_.gpu);
}

// Also adds up the two gradients that each of r, k and v has.
template <class Real>
void GpuTrainingBlock<Real>::time_mix_inputs_backward() {
  c_.row_operation();
  kernel::cuda::time_mix_inputs_backward<Real>({.op = inputs(),
                                                .dw = s_.dw,
                                                .dr = s_.sr,
                                                .da = s_.da,
                                                .db = s_.db,
                                                .dk = s_.sk,
                                                .dv = s_.sv,
                                                .dbonus = s_.dbonus,
                                                .dv_bonus = s_.dv,
                                                .r = act_.r,
                                                .r_k = c_.w(l_.r_k),
                                                .draw_r = s_.dr,
                                                .draw_w = s_.dw_real,
                                                .draw_a = s_.da,
                                                .draw_k = s_.dk,
                                                .draw_v = s_.dv,
                                                .dgate = is_first_ ? nullptr : s_.dgate,
                                                .dv_first = is_first_ ? nullptr : dv_first_,
                                                .dw0 = c_.dw(l_.w0),
                                                .da0 = c_.dw(l_.a0),
                                                .dv0 = is_first_ ? nullptr : c_.dw(l_.v0),
                                                .dk_k = c_.dw(l_.k_k),
                                                .dk_a = c_.dw(l_.k_a),
                                                .scratch = s_.sums},
                                               c_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::take_v_first_gradient() {
  kernel::cuda::add_rows(dv_first_, s_.dv, c_.elements(), c_.gpu);
}

// From dtau to the gradient of tau's mix and act.dz.
template <class Real>
void GpuTrainingBlock<Real>::tau_backward() {
  if (!c_.size.chunks) return;
  kernel::cuda::tau_mix_backward<Real>({.ends = c_.ends(),
                                        .channels = c_.shape.channels,
                                        .heads = c_.shape.heads,
                                        .alpha = float(c_.sane->alpha),
                                        .z = act_.z,
                                        .dtau = s_.dtau,
                                        .weight = c_.matrix(l_.w_tau),
                                        .dz = act_.dz,
                                        .dx_tau = s_.dx_tau},
                                       c_.side->gpu());
  c_.side->done();
}

// sr, sk, sv, dy and db are free by now, and dr after these three: gradients of mixes go there.
template <class Real>
void GpuTrainingBlock<Real>::project_backward(std::span<const Projection> all) {
  three_linear_backward<Real>(c_, l_.of(all.front()), mix(all.front().mix), s_.dr, s_.sr);
}

template <class Real>
void GpuTrainingBlock<Real>::low_rank_backward(const LowRank& pair) {
  const Real* const dout[] = {s_.dw_real, s_.da, s_.dg, s_.dgate};
  Real* const dmix[] = {s_.dy, s_.db, s_.dr, s_.sv};
  const bool shares_mix = pair.mix == Mix::v;  // with a projection, whose gradient is there
  const int64_t rows = c_.size.rows();
  const LayerSlots::Pair& slots = l_.of(pair);
  factor_backward<Real>(c_, slots.up, rows, low(pair), dout[pair.name], s_.dlow);
  if (pair.between) {
    c_.row_operation();
    kernel::cuda::activate_backward<Real>(*pair.between, low(pair), s_.dlow,
                                          rows * slots.down->shape[1], c_.gpu);
  }
  factor_backward<Real>(c_, slots.down, rows, mix(pair.mix), s_.dlow, dmix[pair.name],
                        shares_mix ? kernel::Store::add : kernel::Store::overwrite);
}

template <class Real>
void tau_weights_backward(const GpuPass<Real>& c, int64_t layer,
                          std::span<const LayerBuffers<Real>> buffers) {
  require(int64_t(buffers.size()) <= most_tau_layers<Real>, "so many layers at once");
  kernel::cuda::TauWeightsGradient<Real> op{.ends = c.ends(),
                                            .channels = c.shape.channels,
                                            .heads = c.shape.heads,
                                            .layers = int(buffers.size()),
                                            .layer = {}};
  for (size_t i = 0; i < buffers.size(); ++i) {
    const LayerSlots& slots = c.slots.layers[size_t(layer) + i];
    op.layer[i] = {.x_tau = buffers[i].x_tau,
                   .away = buffers[i].away_tau,
                   .dz = buffers[i].dz,
                   .weight = c.matrix(slots.w_tau),
                   .dweight = c.dw(slots.w_tau),
                   .dmu = c.dw(slots.x_tau)};
  }
  c.row_operation();
  kernel::cuda::tau_weights_backward(op, c.gpu);
}

template class GpuTrainingBlock<float>;
template class GpuTrainingBlock<bf16>;
template void tau_weights_backward(const GpuPass<float>&, int64_t,
                                   std::span<const LayerBuffers<float>>);
template void tau_weights_backward(const GpuPass<bf16>&, int64_t,
                                   std::span<const LayerBuffers<bf16>>);

}  // namespace deltasane::rwkv7::gpu
