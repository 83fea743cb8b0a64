#include "model/gated_delta/train/gradient_pass.h"

#include <algorithm>
#include <vector>

#include "kernel/embedding/embedding.h"
#include "kernel/norm/rms.h"
#include "model/gated_delta/train/training_block.h"
#include "model/train/loss_head.h"

namespace deltasane::gated_delta {
namespace {

BatchSizes sizes_of(const std::optional<SaneSettings>& sane, const PassSettings& settings) {
  const int64_t chunks = sane ? settings.time / sane->chunk : 0;
  return {settings.sequences * settings.time, settings.sequences * chunks};
}

// The widest operands of products, which bf16 has rounded copies of.
int64_t widest_operand(const Config& c) {
  const AttentionWidths wide(c);
  int64_t most = std::max({c.channels, c.mixed_channels(), c.decays(), c.feed_forward});
  if (c.has(Mixer::attention)) most = std::max(most, wide.queries);
  if (c.has(Mixer::latent))
    most = std::max({most, wide.values, wide.cached,
                     c.heads * (c.latent_key_size + c.shared_key_size)});
  return most;
}

void expect_precision(const Config& c, Precision precision) {
  if (precision == Precision::bf16 && std::ranges::count(c.experts, true))
    fail(Fault::usage, "precision: expected fp32 for a model with experts, found bf16");
}

class CpuGradientPass : public GradientPass {
 public:
  CpuGradientPass(const Config& config, const std::optional<SaneSettings>& sane,
                  const PassSettings& settings)
      : config_(config),
        sane_(sane),
        settings_(settings),
        slots_(config_),
        buckets_(slots_.layout),
        scratch_(config_, sizes()),
        head_(rows(), config.vocabulary) {
    require(config.sane == sane.has_value(), "a SANE model has SANE's settings");
    require(settings.sequences > 0 && settings.time > 0, "a batch has tokens");
    expect_precision(config, settings.precision);
    if (settings.precision == Precision::bf16) rounding_.emplace();
    for (Tensor<float>* const one : {&x_, &last_, &dx_, &dlast_})
      *one = Tensor<float>({rows(), config.channels});
    if (recomputes()) layers_.emplace_back(config_, LayerKinds::all(config_), sizes());
    for (int64_t layer = 0; layer < config.layers(); ++layer)
      if (recomputes())
        inputs_.push_back(Tensor<float>({rows(), config.channels}));
      else
        layers_.emplace_back(config_, LayerKinds::of(config_, layer), sizes());
  }

  double gradient(std::span<const float> parameters, const TrainingBatch& batch,
                  const LossSettings& settings, std::span<float> gradient, const kernel::Cpu& cpu,
                  const GradientReady& ready) override {
    const CpuPass p = pass(parameters, batch, gradient, cpu);
    forward(p, batch);
    const double loss = head_.run(p, slots_.head, last_, batch, settings, dlast_);
    backward(p, batch, ready);
    return loss;
  }
  double loss(std::span<const float> parameters, const TrainingBatch& batch,
              const LossSettings& settings, const kernel::Cpu& cpu) override {
    const CpuPass p = pass(parameters, batch, {}, cpu);
    forward(p, batch);
    return head_.run(p, slots_.head, last_, batch, settings, dlast_);
  }
  double recurrence_seconds() const override { return recurrence_seconds_; }
  uint64_t bytes() const override {
    uint64_t sum = PassScratch::bytes(config_, sizes()) + head_.bytes();
    if (recomputes()) sum += LayerActivations::bytes(config_, LayerKinds::all(config_), sizes());
    for (int64_t layer = 0; layer < config_.layers() && !recomputes(); ++layer)
      sum += LayerActivations::bytes(config_, LayerKinds::of(config_, layer), sizes());
    for (const Tensor<float>& input : inputs_) sum += uint64_t(input.elements()) * sizeof(float);
    for (const Tensor<float>* const one : {&x_, &last_, &dx_, &dlast_})
      sum += uint64_t(one->elements()) * sizeof(float);
    return sum + (rounding_ ? rounding_->bytes() : 0);
  }

 private:
  int64_t rows() const { return settings_.sequences * settings_.time; }
  BatchSizes sizes() const { return sizes_of(sane_, settings_); }
  bool recomputes() const { return settings_.activations == Activations::recompute; }
  LayerActivations& of(int64_t layer) { return layers_[recomputes() ? 0 : size_t(layer)]; }
  TrainingBlock block(const CpuPass& p, int64_t layer) {
    return TrainingBlock(p, slots_.layers[size_t(layer)], of(layer), scratch_);
  }

  CpuPass pass(std::span<const float> parameters, const TrainingBatch& batch,
               std::span<float> gradient, const kernel::Cpu& cpu) {
    batch.expect(settings_.sequences, settings_.time, config_.vocabulary);
    CpuPass p{{sane_, settings_.sequences, settings_.time, parameters, gradient, cpu}, config_};
    recurrence_seconds_ = 0;
    p.recurrence_seconds = &recurrence_seconds_;
    if (!batch.present.empty())
      p.present = {batch.present.data(), {settings_.sequences, settings_.time}};
    if (rounding_) {
      rounding_->take_parameters(parameters, cpu);
      p.rounding = &*rounding_;
    }
    return p;
  }

  void forward(const CpuPass& p, const TrainingBatch& batch) {
    kernel::embed(batch.tokens, p.w(slots_.embedding), x_.view(), p.cpu);
    for (int64_t layer = 0; layer < config_.layers(); ++layer) {
      copy_rows(x_, of(layer).x, p.cpu);
      if (recomputes()) copy_rows(x_, inputs_[size_t(layer)], p.cpu);
      block(p, layer).forward(&x_);
    }
    kernel::rms_norm({x_.view(), config_.channels, p.w(slots_.norm), float(config_.norm_eps),
                      last_.view()},
                     p.cpu);
  }

  void backward(const CpuPass& p, const TrainingBatch& batch, const GradientReady& ready) {
    const auto complete = [&](int64_t bucket) {
      buckets_.report(bucket, p.gradient.data(), ready);
    };
    kernel::rms_norm_backward({x_.view(), config_.channels, p.w(slots_.norm),
                               float(config_.norm_eps), dlast_.view(), dx_.view(),
                               kernel::Store::overwrite, p.dw(slots_.norm)},
                              p.cpu);
    complete(config_.layers());
    for (int64_t layer = config_.layers() - 1; layer >= 0; --layer) {
      if (recomputes()) {
        copy_rows(inputs_[size_t(layer)], of(layer).x, p.cpu);
        block(p, layer).forward(nullptr);
      }
      block(p, layer).backward(dx_);
      if (layer > 0) complete(layer);
    }
    kernel::embed_backward(batch.tokens, dx_.view(), p.dw(slots_.embedding), p.cpu);
    complete(0);
  }

  Config config_;
  std::optional<SaneSettings> sane_;
  PassSettings settings_;
  ModelSlots slots_;
  GradientBuckets buckets_;
  PassScratch scratch_;
  std::vector<LayerActivations> layers_;  // of every layer, or of the one that is computed
  std::vector<Tensor<float>> inputs_;     // of every layer, where the rest is computed again
  Tensor<float> x_, last_, dx_, dlast_;
  LossHead head_;
  std::optional<Rounding> rounding_;
  double recurrence_seconds_ = 0;
};

}  // namespace

PassMemory gradient_pass_memory(const Config& config, const std::optional<SaneSettings>& sane,
                                const PassSettings& settings) {
  const BatchSizes n = sizes_of(sane, settings);
  const bool recomputes = settings.activations == Activations::recompute;
  const uint64_t input = uint64_t(n.rows * config.channels) * sizeof(float);
  uint64_t kept = recomputes ? LayerActivations::bytes(config, LayerKinds::all(config), n) : 0;
  for (int64_t layer = 0; layer < config.layers(); ++layer)
    kept += recomputes ? input : LayerActivations::bytes(config, LayerKinds::of(config, layer), n);
  uint64_t rest =
      PassScratch::bytes(config, n) + 4 * input + LossHead::bytes(n.rows, config.vocabulary);
  if (settings.precision == Precision::bf16) {  // the parameters and two operands, rounded
    const int64_t widest = n.rows * widest_operand(config);
    const int64_t logits = LossHead::logits(n.rows, config.vocabulary);
    rest += uint64_t(ModelSlots(config).layout.elements() + widest + std::max(widest, logits)) *
            sizeof(float);
  }
  return {kept, rest};
}

std::unique_ptr<GradientPass> make_gradient_pass(const Config& config,
                                                 const std::optional<SaneSettings>& sane,
                                                 const PassSettings& settings) {
  return std::make_unique<CpuGradientPass>(config, sane, settings);
}

}  // namespace deltasane::gated_delta
