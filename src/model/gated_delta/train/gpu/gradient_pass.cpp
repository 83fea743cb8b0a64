#include "model/gated_delta/train/gpu/gradient_pass.h"

#include <cmath>

#include "kernel/norm/rms_cuda.h"
#include "model/gated_delta/train/gpu/training_block.h"
#include "model/gated_delta/train/gpu/unsupported.h"
#include "model/gated_delta/train/layout.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::gated_delta {
namespace gpu {
namespace {

template <class Real>
class Pass : public LayeredGpuPass<Real, PassBuffers<Real>> {
  using Base = LayeredGpuPass<Real, PassBuffers<Real>>;
  using Common = GpuTrainingPass<Real>;

 public:
  Pass(const Config& config, const std::optional<SaneSettings>& sane, const PassSettings& settings,
       const Gpu& gpu)
      : Base(parameter_layout(config), sane, settings, PassBuffers<Real>(config, sane, settings),
             gpu),
        config_(config),
        slots_(config_),
        ragged_(b_.shared.fill_rows(b_.size, gpu)),
        rule_scratch_([this](int64_t) { return b_.shared.rule; }) {
    std::vector<double> turns, back;
    for (int64_t i = 0; i < config.rotary / 2; ++i) {
      turns.push_back(std::pow(config.theta, -2.0 * double(i) / double(config.rotary)));
      back.push_back(-turns.back());
    }
    copy_to_gpu(b_.shared.turns, turns.data(), turns.size() * sizeof(double), gpu);
    copy_to_gpu(b_.shared.turns_back, back.data(), back.size() * sizeof(double), gpu);
    gpu.wait();
    if (config.taps > 0) return;
    const std::vector<float> ones(size_t(config.mixed_channels()), 1.0f);
    copy_to_gpu(b_.shared.convolution, ones.data(), ones.size() * sizeof(float), gpu);
    gpu.wait();
  }

 private:
  using Base::b_, Base::gpu_, Base::recomputes_;

  Slot embedding() const override { return slots_.embedding; }
  Slot head() const override { return slots_.head; }
  GpuPass<Real> of(const Common& c) {
    return {c, config_, ragged_, rule_scratch_, b_.shared.convolution};
  }
  GpuTrainingBlock<Real> block(const GpuPass<Real>& c, int64_t layer) const {
    return {c, slots_.layers[size_t(layer)], b_.streams[size_t(layer)],
            b_.layers[recomputes_ ? 0 : size_t(layer)], b_.shared};
  }

  void embed(const Common& c) override {
    kernel::cuda::embed(c.rows(), b_.batch.tokens, c.w(slots_.embedding), b_.streams.front(), gpu_);
  }
  void layer_forward(const Common& c, int64_t layer, float* x_out) override {
    block(of(c), layer).forward(x_out);
  }
  bool layer_backward(const Common& c, int64_t layer) override {
    block(of(c), layer).backward(b_.dx);
    return true;
  }
  void last_norm(const Common& c) override {
    kernel::cuda::RmsNorm<float, Real> op;
    op.rows = c.size.rows(), op.size = config_.channels;
    op.x = b_.streams.back(), op.x_step = op.y_step = config_.channels;
    op.weight = c.w(slots_.norm), op.eps = float(config_.norm_eps), op.y = b_.last;
    kernel::cuda::rms_norm(op, gpu_);
  }
  void last_norm_backward(const Common& c) override {
    kernel::cuda::RmsNormGradient<float, Real> op;
    op.rows = c.size.rows(), op.size = config_.channels, op.x = b_.streams.back();
    op.weight = c.w(slots_.norm), op.eps = float(config_.norm_eps), op.dy = b_.dlast;
    op.dx = b_.dx, op.dweight = c.dw(slots_.norm), op.scratch = b_.shared.sums;
    if constexpr (std::is_same_v<Real, bf16>) op.rounded = b_.shared.dresult;
    kernel::cuda::rms_norm_backward(op, gpu_);
  }

  Config config_;
  ModelSlots slots_;
  kernel::cuda::RaggedRows ragged_;
  kernel::cuda::DeltaRuleScratch rule_scratch_;
};

}  // namespace
}  // namespace gpu

template <class Real>
std::unique_ptr<GpuGradientPass<Real>> make_gpu_gradient_pass(
    const Config& config, const std::optional<SaneSettings>& sane, const PassSettings& settings,
    const Gpu& device) {
  require(config.sane == sane.has_value(), "a SANE model has SANE's settings");
  require(settings.sequences > 0 && settings.time > 0, "a batch has tokens");
  gpu::expect_trainable(config);
  return std::make_unique<gpu::Pass<Real>>(config, sane, settings, device);
}

PassMemory gpu_gradient_pass_memory(const Config& config, const std::optional<SaneSettings>& sane,
                                    const PassSettings& settings) {
  const auto counted = [&]<class Real>(Real) {
    return memory_of(gpu::PassBuffers<Real>(config, sane, settings));
  };
  return settings.precision == Precision::bf16 ? counted(bf16()) : counted(float());
}

template std::unique_ptr<GpuGradientPass<float>> make_gpu_gradient_pass(
    const Config&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);
template std::unique_ptr<GpuGradientPass<bf16>> make_gpu_gradient_pass(
    const Config&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);

}  // namespace deltasane::gated_delta
