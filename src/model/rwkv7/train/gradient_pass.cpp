#include "model/rwkv7/train/gradient_pass.h"

#include <algorithm>
#include <vector>

#include "kernel/embedding/embedding.h"
#include "kernel/norm/norm.h"
#include "model/rwkv7/train/cpu_training_block.h"
#include "model/rwkv7/train/layout.h"
#include "model/train/loss_head.h"

namespace deltasane::rwkv7 {
namespace {

class CpuGradientPass : public GradientPass {
 public:
  CpuGradientPass(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                  const PassSettings& settings);

  double gradient(std::span<const float> parameters, const TrainingBatch& batch,
                  const LossSettings& settings, std::span<float> gradient, const kernel::Cpu& cpu,
                  const GradientReady& ready) override {
    const CpuPass c = pass(parameters, batch, gradient, cpu);
    forward(c, batch);
    const double loss = head_.run(c, slots_.head, last_, batch, settings, dlast_);
    backward(c, batch, ready);
    return loss;
  }
  double loss(std::span<const float> parameters, const TrainingBatch& batch,
              const LossSettings& settings, const kernel::Cpu& cpu) override {
    const CpuPass c = pass(parameters, batch, {}, cpu);
    forward(c, batch);
    return head_.run(c, slots_.head, last_, batch, settings, dlast_);
  }
  double recurrence_seconds() const override { return recurrence_seconds_; }
  uint64_t bytes() const override;

 private:
  int64_t rows() const { return settings_.sequences * settings_.time; }
  bool recomputes() const { return settings_.activations == Activations::recompute; }
  LayerActivations& of(int64_t layer) { return layers_[recomputes() ? 0 : size_t(layer)]; }
  CpuTrainingBlock block(const CpuPass& c, int64_t layer) {
    return CpuTrainingBlock(c, slots_, layer, of(layer), {v_first_, dv_first_, scratch_});
  }
  CpuPass pass(std::span<const float> parameters, const TrainingBatch& batch,
               std::span<float> gradient, const kernel::Cpu& cpu);
  void forward(const CpuPass& c, const TrainingBatch& batch);
  void backward(const CpuPass& c, const TrainingBatch& batch, const GradientReady& ready);
  void embedding_backward(const CpuPass& c, const TrainingBatch& batch);

  Rwkv7Shape shape_;
  std::optional<SaneSettings> sane_;
  PassSettings settings_;
  ModelSlots slots_;
  GradientBuckets buckets_;
  PassScratch scratch_;
  std::vector<LayerActivations> layers_;  // of every layer, or of the one that is computed
  std::vector<Tensor<float>> inputs_;     // of every layer, where the rest is computed again
  Tensor<float> embedded_, x_, last_, dx_, dlast_, v_first_, dv_first_;
  LossHead head_;
  std::optional<Rounding> rounding_;
  double recurrence_seconds_ = 0;
};

int64_t chunks_of(const std::optional<SaneSettings>& sane, const PassSettings& settings) {
  return sane ? settings.time / sane->chunk : 0;
}

CpuGradientPass::CpuGradientPass(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                                 const PassSettings& settings)
    : shape_(shape),
      sane_(sane),
      settings_(settings),
      slots_(shape),
      buckets_(slots_.layout),
      scratch_(shape, settings.sequences, chunks_of(sane, settings), rows()),
      head_(rows(), shape.vocabulary) {
  require(shape.sane == sane.has_value(), "a SANE model has SANE's settings");
  require(settings.sequences > 0 && settings.time > 0, "a batch has tokens");
  if (settings.precision == Precision::bf16) rounding_.emplace();
  for (Tensor<float>* one : {&embedded_, &x_, &last_, &dx_, &dlast_, &v_first_, &dv_first_})
    *one = Tensor<float>({rows(), shape.channels});
  // With one set of activations for all layers, the first layer has a gate that it never uses.
  const int64_t sets = recomputes() ? 1 : shape.layers;
  for (int64_t i = 0; i < sets; ++i)
    layers_.emplace_back(shape, settings.sequences, chunks_of(sane, settings), rows(),
                         i == 0 && shape.layers == 1);
  if (recomputes())
    for (int64_t i = 0; i < shape.layers; ++i)
      inputs_.push_back(Tensor<float>({rows(), shape.channels}));
}

uint64_t CpuGradientPass::bytes() const {
  int64_t floats = scratch_.elements();
  for (const LayerActivations& layer : layers_) floats += layer.elements();
  for (const Tensor<float>& input : inputs_) floats += input.elements();
  for (const Tensor<float>* one :
       {&embedded_, &x_, &last_, &dx_, &dlast_, &v_first_, &dv_first_})
    floats += one->elements();
  return uint64_t(floats) * sizeof(float) + head_.bytes() +
         (rounding_ ? rounding_->bytes() : 0);
}

CpuPass CpuGradientPass::pass(std::span<const float> parameters, const TrainingBatch& batch,
                              std::span<float> gradient, const kernel::Cpu& cpu) {
  batch.expect(settings_.sequences, settings_.time, shape_.vocabulary);
  CpuPass c{{sane_, settings_.sequences, settings_.time, parameters, gradient, cpu}, shape_};
  recurrence_seconds_ = 0;
  c.recurrence_seconds = &recurrence_seconds_;
  if (!batch.present.empty())
    c.present = {batch.present.data(), {settings_.sequences, settings_.time}};
  if (rounding_) {
    rounding_->take_parameters(parameters, cpu);
    c.rounding = &*rounding_;
  }
  return c;
}

void CpuGradientPass::forward(const CpuPass& c, const TrainingBatch& batch) {
  kernel::embed(batch.tokens, c.w(slots_.embedding), embedded_.view(), c.cpu);
  if (shape_.embedding_norm)
    kernel::layer_norm(embedded_.view(), c.w(slots_.ln0.weight), c.w(slots_.ln0.bias),
                       shape_.norms.layer_eps, x_.view(), c.cpu);
  else
    std::ranges::copy(embedded_.span(), x_.data());
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    std::ranges::copy(x_.span(), of(layer).x.data());
    if (recomputes()) std::ranges::copy(x_.span(), inputs_[size_t(layer)].data());
    block(c, layer).forward(&x_);
  }
  kernel::layer_norm(x_.view(), c.w(slots_.ln_out.weight), c.w(slots_.ln_out.bias),
                     shape_.norms.layer_eps, last_.view(), c.cpu);
}

void CpuGradientPass::backward(const CpuPass& c, const TrainingBatch& batch,
                               const GradientReady& ready) {
  const auto complete = [&](int64_t bucket) { buckets_.report(bucket, c.gradient.data(), ready); };
  dx_.fill(0);
  dv_first_.fill(0);
  kernel::layer_norm_backward(
      {x_.view(), c.w(slots_.ln_out.weight), shape_.norms.layer_eps, dlast_.view(), dx_.view(),
       c.dw(slots_.ln_out.weight), c.dw(slots_.ln_out.bias)},
      c.cpu);
  complete(shape_.layers);
  for (int64_t layer = shape_.layers - 1; layer >= 0; --layer) {
    if (recomputes()) {
      std::ranges::copy(inputs_[size_t(layer)].span(), of(layer).x.data());
      block(c, layer).forward(nullptr);
    }
    block(c, layer).backward(dx_);
    if (layer > 0) complete(layer);
  }
  embedding_backward(c, batch);
  complete(0);
}

void CpuGradientPass::embedding_backward(const CpuPass& c, const TrainingBatch& batch) {
  Tensor<float>& drows = dlast_;  // free by now
  if (shape_.embedding_norm) {
    drows.fill(0);
    kernel::layer_norm_backward(
        {embedded_.view(), c.w(slots_.ln0.weight), shape_.norms.layer_eps, dx_.view(), drows.view(),
         c.dw(slots_.ln0.weight), c.dw(slots_.ln0.bias)},
        c.cpu);
  }
  const float* const from = shape_.embedding_norm ? drows.data() : dx_.data();
  kernel::embed_backward(batch.tokens, {from, {rows(), shape_.channels}}, c.dw(slots_.embedding),
                         c.cpu);
}

}  // namespace

PassMemory gradient_pass_memory(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                                const PassSettings& settings) {
  const int64_t rows = settings.sequences * settings.time, chunks = chunks_of(sane, settings);
  const bool recomputes = settings.activations == Activations::recompute;
  const int64_t sets = recomputes ? 1 : shape.layers;
  int64_t kept = recomputes ? shape.layers * rows * shape.channels : 0;
  for (int64_t i = 0; i < sets; ++i)
    kept += LayerActivations::elements(shape, settings.sequences, chunks, rows,
                                       i == 0 && shape.layers == 1);
  const int64_t logits = LossHead::logits(rows, shape.vocabulary);
  const int64_t widest = rows * std::max(shape.feed_forward, shape.channels);
  int64_t rest = PassScratch::elements(shape, settings.sequences, chunks, rows) +
                 7 * rows * shape.channels;
  if (settings.precision == Precision::bf16)  // the parameters and two operands, rounded
    rest += parameter_layout(shape).elements() + widest + std::max(widest, logits);
  return {uint64_t(kept) * sizeof(float),
          uint64_t(rest) * sizeof(float) + LossHead::bytes(rows, shape.vocabulary)};
}

std::unique_ptr<GradientPass> make_gradient_pass(const Rwkv7Shape& shape,
                                                 const std::optional<SaneSettings>& sane,
                                                 const PassSettings& settings) {
  return std::make_unique<CpuGradientPass>(shape, sane, settings);
}

}  // namespace deltasane::rwkv7
