#include "train/gpu/gpu_layer.h"
#include "train/gpu/layer_operators.h"

namespace deltasane::train::gpu {

using kernel::cuda::GpuActivation;

namespace {

// act.low = between(mix down), out = act.low up
template <class Real, class Out>
void low_rank(const GpuPass<Real>& c, const std::string& down, const std::string& up,
              const Real* mix, Real* low, Out* out, std::optional<GpuActivation> between) {
  const int64_t rows = c.size.rows();
  factor(c, down, rows, mix, low);
  if (between) {
    c.row_operation();
    kernel::cuda::activate(*between, low, rows * c.layout.slot(down).shape[1], c.gpu);
  }
  factor(c, up, rows, static_cast<const Real*>(low), out);
}

// tau of the tokens that end a chunk
template <class Real>
void thresholds(const GpuPass<Real>& c, const std::string& att, const LayerBuffers<Real>& act) {
  factor(c, att + "w_tau", c.ends(), static_cast<const Real*>(act.x_tau), act.z);
  kernel::cuda::thresholds(act.z, c.ends() * c.shape().heads, c.sane->alpha, act.tau, c.gpu);
}

}  // namespace

template <class Real>
void layer_forward(const GpuPass<Real>& c, int64_t layer, const float* x,
                   const LayerBuffers<Real>& act, Real* v_first, float* x_out) {
  const std::string block = block_name(layer), att = block + "att.";
  const auto read = [](Real* from) { return static_cast<const Real*>(from); };

  c.row_operation();
  kernel::cuda::norm_shift(time_mix_shift(c, layer, x, act), c.gpu);
  if (c.size.chunks) c.beside([&](const GpuPass<Real>& side) { thresholds(side, att, act); });
  three_linear(c, att + "receptance.weight", read(act.mix_r), act.r);
  low_rank(c, att + "w1", att + "w2", read(act.mix_w), act.low_w, act.raw_w, GpuActivation::tanh);
  low_rank(c, att + "a1", att + "a2", read(act.mix_a), act.low_a, act.raw_a, std::nullopt);
  low_rank(c, att + "g1", att + "g2", read(act.mix_g), act.low_g, act.g, GpuActivation::sigmoid);
  if (layer)
    low_rank(c, att + "v1", att + "v2", read(act.mix_v), act.low_v, act.gate, std::nullopt);
  else
    copy_on_gpu(v_first, act.raw_v, uint64_t(c.elements()) * sizeof(Real), c.gpu);
  c.row_operation();
  kernel::cuda::time_mix_inputs(time_mix_inputs(c, layer, act, read(v_first)), c.gpu);
  if (c.size.chunks) c.wait_for_side();
  c.clock.begin(Work::recurrence_forward, c.gpu);
  kernel::cuda::delta_rule(recurrence(c, act), c.recurrence_scratch, c.gpu);
  c.row_operation();
  kernel::cuda::time_mix_output(time_mix_output(c, layer, act), c.gpu);
  linear_onto(c, att + "output.weight", read(act.y), x, act.x_ffn);

  c.row_operation();
  kernel::cuda::norm_shift(channel_mix_shift(c, layer, act), c.gpu);
  linear(c, block + "ffn.key.weight", read(act.mix_ffn), act.hidden);
  c.row_operation();
  kernel::cuda::activate(GpuActivation::squared_relu, act.hidden,
                         c.size.rows() * c.shape().feed_forward, c.gpu);
  if (x_out) linear_onto(c, block + "ffn.value.weight", read(act.hidden), act.x_ffn, x_out);
}

template void layer_forward(const GpuPass<float>&, int64_t, const float*,
                            const LayerBuffers<float>&, float*, float*);
template void layer_forward(const GpuPass<bf16>&, int64_t, const float*, const LayerBuffers<bf16>&,
                            bf16*, float*);

}  // namespace deltasane::train::gpu
