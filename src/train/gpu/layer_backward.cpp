#include "train/gpu/gpu_layer.h"
#include "train/gpu/layer_operators.h"

namespace deltasane::train::gpu {

using kernel::cuda::GpuActivation;

namespace {

template <class Real>
void channel_mix_backward(const GpuPass<Real>& c, int64_t layer, const LayerBuffers<Real>& act,
                          const BackwardBuffers<Real>& s, float* dx) {
  const std::string block = block_name(layer);
  const Real* const dresult = as_products_read<Real>(dx, s.dresult);
  linear_backward<Real>(c, block + "ffn.value.weight", act.hidden, dresult, s.dhidden);
  c.row_operation();
  kernel::cuda::activate_backward<Real>(GpuActivation::squared_relu, act.hidden, s.dhidden,
                                        c.size.rows() * c.shape().feed_forward, c.gpu);
  linear_backward<Real>(c, block + "ffn.key.weight", act.mix_ffn, s.dhidden, s.dy);
  c.row_operation();
  kernel::cuda::norm_shift_backward<Real>({.op = channel_mix_shift(c, layer, act),
                                           .dout = {s.dy},
                                           .dx = dx,
                                           .dweight = c.dw(block + "ln2.weight"),
                                           .dbias = c.dw(block + "ln2.bias"),
                                           .dmu = {c.dw(block + "ffn.x_k")},
                                           .scratch = s.sums,
                                           .dx_real = rounded_copy(s.dresult)},
                                          c.gpu);
}

// From s.dy, the gradient of act.y, to those of what time_mix_inputs was given: s.dr, s.dw_real,
// s.da, s.dk, s.dv, s.dgate; and s.dg and s.dtau.
template <class Real>
void recurrence_backward(const GpuPass<Real>& c, int64_t layer, const LayerBuffers<Real>& act,
                         const Real* v_first, float* dv_first, const BackwardBuffers<Real>& s) {
  const std::string att = block_name(layer) + "att.";
  c.row_operation();
  kernel::cuda::time_mix_output_backward<Real>({.op = time_mix_output(c, layer, act),
                                                .dy = s.dy,
                                                .dread = s.dy,
                                                .dbonus = s.dbonus,
                                                .dv_bonus = s.dv,
                                                .dg = s.dg,
                                                .dweight = c.dw(att + "ln_x.weight"),
                                                .dbias = c.dw(att + "ln_x.bias"),
                                                .dr_k = c.dw(att + "r_k"),
                                                .scratch = s.sums},
                                               c.gpu);
  c.clock.begin(Work::recurrence_backward, c.gpu);
  kernel::cuda::delta_rule_backward<Real>(recurrence(c, act),
                                          {.dy = s.dy,
                                           .dr = s.sr,
                                           .dk = s.sk,
                                           .dv = s.sv,
                                           .da = s.da,
                                           .db = s.db,
                                           .dw = s.dw,
                                           .dtau = c.size.chunks ? s.dtau : nullptr},
                                          c.recurrence_scratch, c.gpu);
  c.row_operation();
  kernel::cuda::time_mix_inputs_backward<Real>({.op = time_mix_inputs(c, layer, act, v_first),
                                                .dw = s.dw,
                                                .dr = s.sr,
                                                .da = s.da,
                                                .db = s.db,
                                                .dk = s.sk,
                                                .dv = s.sv,
                                                .dbonus = s.dbonus,
                                                .dv_bonus = s.dv,
                                                .r = act.r,
                                                .r_k = c.w(att + "r_k"),
                                                .draw_r = s.dr,
                                                .draw_w = s.dw_real,
                                                .draw_a = s.da,
                                                .draw_k = s.dk,
                                                .draw_v = s.dv,
                                                .dgate = layer ? s.dgate : nullptr,
                                                .dv_first = layer ? dv_first : nullptr,
                                                .dw0 = c.dw(att + "w0"),
                                                .da0 = c.dw(att + "a0"),
                                                .dv0 = layer ? c.dw(att + "v0") : nullptr,
                                                .dk_k = c.dw(att + "k_k"),
                                                .dk_a = c.dw(att + "k_a"),
                                                .scratch = s.sums},
                                               c.gpu);
  if (layer == 0) kernel::cuda::add_rows(dv_first, s.dv, c.elements(), c.gpu);
}

// From `dup`, the gradient of the pair's result, to that of its mix.
template <class Real>
void low_rank_backward(const GpuPass<Real>& c, const std::string& down, const std::string& up,
                       const Real* mix, const Real* low, const Real* dup, Real* dlow, Real* dmix,
                       std::optional<GpuActivation> between, Store store = Store::overwrite) {
  const int64_t rows = c.size.rows();
  factor_backward(c, up, rows, low, dup, dlow);
  if (between) {
    c.row_operation();
    kernel::cuda::activate_backward(*between, low, dlow, rows * c.layout.slot(down).shape[1],
                                    c.gpu);
  }
  factor_backward<Real>(c, down, rows, mix, dlow, dmix, store);
}

// From s.dtau to s.dx_tau and act.dz.
template <class Real>
void thresholds_backward(const GpuPass<Real>& c, int64_t layer, const LayerBuffers<Real>& act,
                         const BackwardBuffers<Real>& s) {
  kernel::cuda::tau_mix_backward<Real>({.ends = c.ends(),
                                        .channels = c.shape().channels,
                                        .heads = c.shape().heads,
                                        .alpha = float(c.sane->alpha),
                                        .z = act.z,
                                        .dtau = s.dtau,
                                        .weight = c.matrix(block_name(layer) + "att.w_tau"),
                                        .dz = act.dz,
                                        .dx_tau = s.dx_tau},
                                       c.gpu);
}

template <class Real>
void time_mix_backward(const GpuPass<Real>& c, int64_t layer, const float* x,
                       const LayerBuffers<Real>& act, const Real* v_first, float* dv_first,
                       const BackwardBuffers<Real>& s, float* dx) {
  const std::string block = block_name(layer), att = block + "att.";
  const Real* const dresult = as_products_read<Real>(dx, s.dresult);
  linear_backward<Real>(c, att + "output.weight", act.y, dresult, s.dy);
  recurrence_backward(c, layer, act, v_first, dv_first, s);
  if (c.size.chunks)
    c.beside([&](const GpuPass<Real>& side) { thresholds_backward(side, layer, act, s); });
  // sr, sk, sv, dy and db are free by now, and dr after the first three.
  three_linear_backward<Real>(c, att + "receptance.weight", act.mix_r, s.dr, s.sr);
  Real *const dmix_w = s.dy, *const dmix_a = s.db, *const dmix_g = s.dr;
  if (layer)
    low_rank_backward<Real>(c, att + "v1", att + "v2", act.mix_v, act.low_v, s.dgate, s.dlow, s.sv,
                            std::nullopt, Store::add);
  low_rank_backward<Real>(c, att + "w1", att + "w2", act.mix_w, act.low_w, s.dw_real, s.dlow,
                          dmix_w, GpuActivation::tanh);
  low_rank_backward<Real>(c, att + "a1", att + "a2", act.mix_a, act.low_a, s.da, s.dlow, dmix_a,
                          std::nullopt);
  low_rank_backward<Real>(c, att + "g1", att + "g2", act.mix_g, act.low_g, s.dg, s.dlow, dmix_g,
                          GpuActivation::sigmoid);
  if (c.size.chunks) c.wait_for_side();
  c.row_operation();
  kernel::cuda::norm_shift_backward<Real>(
      {.op = time_mix_shift(c, layer, x, act),
       .dout = {s.sr, dmix_w, s.sk, s.sv, dmix_a, dmix_g},
       .dout_tau = c.size.chunks ? s.dx_tau : nullptr,
       .dx = dx,
       .dweight = c.dw(block + "ln1.weight"),
       .dbias = c.dw(block + "ln1.bias"),
       .dmu = {c.dw(att + "x_r"), c.dw(att + "x_w"), c.dw(att + "x_k"), c.dw(att + "x_v"),
               c.dw(att + "x_a"), c.dw(att + "x_g")},
       .scratch = s.sums,
       .dx_real = rounded_copy(s.dresult)},
      c.gpu);
}

}  // namespace

template <class Real>
void layer_backward(const GpuPass<Real>& c, int64_t layer, const float* x,
                    const LayerBuffers<Real>& act, const Real* v_first, float* dv_first,
                    const BackwardBuffers<Real>& s, float* dx) {
  channel_mix_backward(c, layer, act, s, dx);
  time_mix_backward(c, layer, x, act, v_first, dv_first, s, dx);
}

template <class Real>
void threshold_weights_backward(const GpuPass<Real>& c, int64_t layer,
                                std::span<const LayerBuffers<Real>> buffers) {
  require(int64_t(buffers.size()) <= most_threshold_layers<Real>, "so many layers at once");
  kernel::cuda::TauWeightsGradient<Real> op{.ends = c.ends(),
                                            .channels = c.shape().channels,
                                            .heads = c.shape().heads,
                                            .layers = int(buffers.size()),
                                            .layer = {}};
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::string att = block_name(layer + int64_t(i)) + "att.";
    op.layer[i] = {.x_tau = buffers[i].x_tau,
                   .away = buffers[i].away_tau,
                   .dz = buffers[i].dz,
                   .weight = c.matrix(att + "w_tau"),
                   .dweight = c.dw(att + "w_tau"),
                   .dmu = c.dw(att + "x_tau")};
  }
  c.row_operation();
  kernel::cuda::tau_weights_backward(op, c.gpu);
}

template void layer_backward(const GpuPass<float>&, int64_t, const float*,
                             const LayerBuffers<float>&, const float*, float*,
                             const BackwardBuffers<float>&, float*);
template void layer_backward(const GpuPass<bf16>&, int64_t, const float*, const LayerBuffers<bf16>&,
                             const bf16*, float*, const BackwardBuffers<bf16>&, float*);
template void threshold_weights_backward(const GpuPass<float>&, int64_t,
                                         std::span<const LayerBuffers<float>>);
template void threshold_weights_backward(const GpuPass<bf16>&, int64_t,
                                         std::span<const LayerBuffers<bf16>>);

}  // namespace deltasane::train::gpu
