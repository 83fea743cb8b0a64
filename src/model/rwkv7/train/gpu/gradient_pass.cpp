#include "model/rwkv7/train/gpu/gradient_pass.h"

#include "model/rwkv7/train/gpu/pass_buffers.h"
#include "model/rwkv7/train/gpu/training_block.h"
#include "model/rwkv7/train/gpu/unsupported.h"
#include "model/rwkv7/train/layout.h"

namespace deltasane::rwkv7 {
namespace gpu {
namespace {

// The gradient of a plain layer norm: of norm_shift with one mix that takes nothing of the row
// before. `zero` and `unused`: (C), mu and what its gradient is added to.
template <class Real>
struct LayerNormGradient {
  kernel::cuda::RowBlock rows;
  float eps;
  const float *x, *weight, *bias;
  const Real* dy;
  float *dx, *dweight, *dbias;
  const float* zero;
  float *unused, *sums;
  Real* dx_real = nullptr;
};
template <class Real>
void layer_norm_backward(const LayerNormGradient<Real>& g, const Gpu& gpu) {
  kernel::cuda::norm_shift_backward<Real>({.op = {.rows = g.rows,
                                                  .x = g.x,
                                                  .weight = g.weight,
                                                  .bias = g.bias,
                                                  .eps = g.eps,
                                                  .mixes = 1,
                                                  .mu = {g.zero}},
                                           .dout = {g.dy},
                                           .dx = g.dx,
                                           .dweight = g.dweight,
                                           .dbias = g.dbias,
                                           .dmu = {g.unused},
                                           .scratch = g.sums,
                                           .dx_real = g.dx_real},
                                          gpu);
}

template <class Real>
class Pass : public LayeredGpuPass<Real, PassBuffers<Real>> {
  using Base = LayeredGpuPass<Real, PassBuffers<Real>>;
  using Common = GpuTrainingPass<Real>;

 public:
  Pass(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
       const PassSettings& settings, const Gpu& gpu)
      : Base(parameter_layout(shape), sane, settings, PassBuffers<Real>(shape, sane, settings), gpu),
        shape_(shape),
        slots_(shape) {
    if (sane) side_.emplace(gpu);
    zero_on_gpu(b_.zero, uint64_t(shape.channels) * sizeof(float), gpu);
    zero_on_gpu(b_.unused, uint64_t(shape.channels) * sizeof(float), gpu);
  }

 private:
  using Base::b_, Base::gpu_, Base::recomputes_;

  Slot embedding() const override { return slots_.embedding; }
  Slot head() const override { return slots_.head; }
  GpuPass<Real> of(const Common& c) {
    return {c, shape_, slots_, recurrence_scratch_, side_ ? &*side_ : nullptr};
  }
  const LayerBuffers<Real>& buffers(int64_t layer) const {
    return b_.layers[recomputes_ ? 0 : size_t(layer)];
  }
  GpuTrainingBlock<Real> block(const GpuPass<Real>& c, int64_t layer) const {
    return GpuTrainingBlock<Real>(c, layer, b_.streams[size_t(layer)], buffers(layer),
                                  {b_.v_first, b_.dv_first, b_.backward});
  }

  void embed(const Common& c) override {
    float* const x = b_.streams.front();
    kernel::cuda::embed(c.rows(), b_.batch.tokens, c.w(slots_.embedding), nullptr, nullptr, 0,
                        shape_.embedding_norm ? b_.embedded : x, gpu_);
    if (shape_.embedding_norm)
      kernel::cuda::layer_norm(c.rows(), b_.embedded, c.w(slots_.ln0.weight), c.w(slots_.ln0.bias),
                               shape_.norms.layer_eps, x, gpu_);
  }
  void layer_forward(const Common& c, int64_t layer, float* x_out) override {
    block(of(c), layer).forward(x_out);
  }
  void last_norm(const Common& c) override {
    kernel::cuda::layer_norm(c.rows(), b_.streams.back(), c.w(slots_.ln_out.weight),
                             c.w(slots_.ln_out.bias), shape_.norms.layer_eps, b_.last, gpu_);
  }
  void last_norm_backward(const Common& c) override {
    zero_on_gpu(b_.dv_first, uint64_t(c.elements()) * sizeof(float), gpu_);
    layer_norm_backward<Real>(
        {c.rows(), shape_.norms.layer_eps, b_.streams.back(), c.w(slots_.ln_out.weight),
         c.w(slots_.ln_out.bias), b_.dlast, b_.dx, c.dw(slots_.ln_out.weight),
         c.dw(slots_.ln_out.bias), b_.zero, b_.unused, b_.backward.sums,
         rounded_copy(b_.backward.dresult)},
        gpu_);
  }
  // Where activations are kept, SANE's own parameters have their gradients for several layers at
  // once; none of these layers is complete before.
  bool layer_backward(const Common& c, int64_t layer) override {
    const GpuPass<Real> pass = of(c);
    block(pass, layer).backward(b_.dx);
    const bool one_by_one = !c.size.chunks || recomputes_;
    const int64_t at_once = one_by_one ? 1 : most_tau_layers<Real>;
    if (++open_ < at_once && layer > 0) return false;
    if (c.size.chunks)
      tau_weights_backward<Real>(pass, layer, {&buffers(layer), size_t(open_)});
    open_ = 0;
    return true;
  }
  const float* embedded_gradient(const Common& c) override {
    if (!shape_.embedding_norm) return b_.dx;
    float* const dembedded = b_.dv_first;  // free by now
    zero_on_gpu(dembedded, uint64_t(c.elements()) * sizeof(float), gpu_);
    layer_norm_backward<float>(
        {c.rows(), shape_.norms.layer_eps, b_.embedded, c.w(slots_.ln0.weight),
         c.w(slots_.ln0.bias), b_.dx, dembedded, c.dw(slots_.ln0.weight), c.dw(slots_.ln0.bias),
         b_.zero, b_.unused, b_.backward.sums},
        gpu_);
    return dembedded;
  }

  Rwkv7Shape shape_;
  ModelSlots slots_;
  std::optional<SideStream> side_;  // with SANE
  kernel::cuda::DeltaRuleScratch recurrence_scratch_;
  int64_t open_ = 0;  // layers whose gradients lack those of SANE's own parameters
};

}  // namespace
}  // namespace gpu

template <class Real>
std::unique_ptr<GpuGradientPass<Real>> make_gpu_gradient_pass(
    const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane, const PassSettings& settings,
    const Gpu& device) {
  require(shape.sane == sane.has_value(), "a SANE model has SANE's settings");
  require(settings.sequences > 0 && settings.time > 0, "a batch has tokens");
  gpu::expect_trainable(shape, sane);
  return std::make_unique<gpu::Pass<Real>>(shape, sane, settings, device);
}

PassMemory gpu_gradient_pass_memory(const Rwkv7Shape& shape,
                                    const std::optional<SaneSettings>& sane,
                                    const PassSettings& settings) {
  const auto counted = [&]<class Real>(Real) {
    return memory_of(gpu::PassBuffers<Real>(shape, sane, settings));
  };
  return settings.precision == Precision::bf16 ? counted(bf16()) : counted(float());
}

template std::unique_ptr<GpuGradientPass<float>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);
template std::unique_ptr<GpuGradientPass<bf16>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);

}  // namespace deltasane::rwkv7
