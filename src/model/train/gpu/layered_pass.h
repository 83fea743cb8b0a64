// What gradient passes on a GPU have in common: a batch goes through an embedding, layers, a norm and
// a head to its loss, and back. An architecture brings the layers and norms.
#pragma once

#include <string>
#include <vector>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/sums/cuda.h"
#include "model/train/gpu/batch_on_gpu.h"
#include "model/train/trainable_model.h"

namespace deltasane {

inline constexpr int64_t gpu_logit_rows = 4096;  // whose logits are held at a time: they are large

inline GpuBatchSize gpu_batch_size(const std::optional<SaneSettings>& sane,
                                   const PassSettings& settings) {
  return {settings.sequences, settings.time, sane ? settings.time / sane->chunk : 0};
}

// What every such pass has on the GPU: what is kept from forward for backward, and the rest. Placed
// by the same functions that count it beforehand. (rows, C) unless said otherwise.
template <class Real>
struct LayeredBuffers {
  int64_t channels, vocabulary;
  GpuBatchSize size;
  std::vector<float*> streams;  // the residual stream before each layer and at the end
  BatchOnGpu batch;
  float* dx = nullptr;
  Real *last = nullptr, *dlast = nullptr;
  Real* logits = nullptr;    // (logit rows, vocabulary)
  double* losses = nullptr;  // (rows)
  int32_t* order = nullptr;  // for the embedding's gradient

  LayeredBuffers(int64_t layers, int64_t of_channels, int64_t of_vocabulary,
                 const GpuBatchSize& of_size)
      : channels(of_channels),
        vocabulary(of_vocabulary),
        size(of_size),
        streams(size_t(layers) + 1),
        batch(of_size) {}

  void place_activations(MemoryPlan& plan) {
    for (float*& stream : streams) plan.place(stream, size.rows() * channels);
  }
  void place_rest(MemoryPlan& plan) {
    const int64_t rows = size.rows(), elements = rows * channels;
    plan.place(dx, elements), plan.place(last, elements), plan.place(dlast, elements);
    plan.place(logits, std::min(rows, gpu_logit_rows) * vocabulary);
    plan.place(losses, rows);
    batch.place(plan);
    plan.place(order,
               kernel::cuda::embed_scratch({size.sequences, size.time, channels}, vocabulary));
  }
};

// Buffers: LayeredBuffers, and what the architecture adds to them.
template <class Real, class Buffers>
class LayeredGpuPass : public GpuGradientPass<Real> {
 public:
  void add(const GpuParameters<Real>& model, const TrainingBatch& batch,
           const LossSettings& settings, float* gradient, double* sum,
           const GradientReady& ready) override {
    batch.expect(size_.sequences, size_.time, b_.vocabulary);
    expect_padding_at_the_ends(batch);
    const bool padded = has_padding_in_front(batch);
    const GpuTrainingPass<Real> c{sane_,
                                  size_,
                                  b_.channels,
                                  model.parameters,
                                  model.rounded,
                                  gradient,
                                  products_,
                                  clock_,
                                  gpu_,
                                  padded ? b_.batch.present : nullptr,
                                  padded && size_.chunks ? b_.batch.whole : nullptr};
    b_.batch.upload(batch, settings, sane_ ? sane_->chunk : 1, gpu_);
    c.row_operation();
    embed(c);
    for (int64_t layer = 0; layer < layers(); ++layer)
      layer_forward(c, layer, b_.streams[size_t(layer) + 1]);
    loss(c, settings);
    kernel::cuda::add_sum(b_.losses, size_.rows(), sum, gpu_);
    if (gradient) backward(c, ready);
  }
  void neutralize(bool on) override {
    require(sane_.has_value(), "neutralize is for a model with SANE");
    size_.chunks = on ? size_.time / sane_->chunk : 0;
  }
  WorkClock& clock() override { return clock_; }
  uint64_t bytes() const override { return activation_memory_.size() + memory_.size(); }

 protected:
  LayeredGpuPass(const ParameterLayout& layout, const std::optional<SaneSettings>& sane,
                 const PassSettings& settings, Buffers buffers, const Gpu& gpu)
      : sane_(sane),
        size_(buffers.size),
        recomputes_(settings.activations == Activations::recompute),
        gpu_(gpu),
        b_(std::move(buffers)),
        buckets_(layout),
        products_(gpu, kernel::cuda::Products::autotune) {
    const std::string batch = cat(settings.sequences, " x ", settings.time, " tokens");
    activation_memory_ = planned(gpu, cat("the activations of ", layers(), " layers, ", batch),
                                 [&](MemoryPlan& plan) { b_.place_activations(plan); });
    memory_ = planned(gpu, cat("logits and gradients of ", batch),
                      [&](MemoryPlan& plan) { b_.place_rest(plan); });
  }

  virtual Slot embedding() const = 0;
  virtual Slot head() const = 0;
  // The tokens' rows, to the first stream.
  virtual void embed(const GpuTrainingPass<Real>& c) = 0;
  // From a layer's stream to x_out. Null: only what its backward needs.
  virtual void layer_forward(const GpuTrainingPass<Real>& c, int64_t layer, float* x_out) = 0;
  virtual void last_norm(const GpuTrainingPass<Real>& c) = 0;           // to last
  virtual void last_norm_backward(const GpuTrainingPass<Real>& c) = 0;  // from dlast to dx
  // dx becomes the gradient of the layer's stream. Whether the gradients of all layers from this one
  // on are complete.
  virtual bool layer_backward(const GpuTrainingPass<Real>& c, int64_t layer) = 0;
  // Of the embedding's rows, from dx.
  virtual const float* embedded_gradient(const GpuTrainingPass<Real>&) { return b_.dx; }

  int64_t layers() const { return int64_t(b_.streams.size()) - 1; }

  std::optional<SaneSettings> sane_;
  GpuBatchSize size_;
  bool recomputes_;
  const Gpu& gpu_;
  Buffers b_;

 private:
  // The losses of all rows, and with a gradient wanted, dlast. Logits are made for some rows at a
  // time.
  void loss(const GpuTrainingPass<Real>& c, const LossSettings& settings) {
    const int64_t channels = b_.channels, vocabulary = b_.vocabulary, rows = size_.rows();
    const Real* const weight = c.matrix(head());
    c.clock.begin(Work::head, gpu_);
    last_norm(c);
    for (int64_t from = 0; from < rows; from += gpu_logit_rows) {
      const int64_t some = std::min(gpu_logit_rows, rows - from);
      const Real* const input = b_.last + from * channels;
      products_.template multiply<Real, Real>({.form = Form::nt,
                                               .m = some,
                                               .n = vocabulary,
                                               .k = channels,
                                               .a = input,
                                               .b = weight,
                                               .c = b_.logits});
      kernel::cuda::cross_entropy<Real>({.rows = some,
                                         .vocabulary = vocabulary,
                                         .logits = b_.logits,
                                         .target = b_.batch.targets + from,
                                         .weight = b_.batch.weights + from,
                                         .wrap = float(settings.wrap),
                                         .loss = b_.losses + from,
                                         .with_gradient = c.gradient != nullptr},
                                        gpu_);
      if (!c.gradient) continue;
      products_.template multiply<Real, float>({.form = Form::tn,
                                                .m = vocabulary,
                                                .n = channels,
                                                .k = some,
                                                .a = b_.logits,
                                                .b = input,
                                                .c = c.dw(head()),
                                                .add = true});
      products_.template multiply<Real, Real>({.form = Form::nn,
                                               .m = some,
                                               .n = channels,
                                               .k = vocabulary,
                                               .a = b_.logits,
                                               .b = weight,
                                               .c = b_.dlast + from * channels});
    }
  }

  void backward(const GpuTrainingPass<Real>& c, const GradientReady& ready) {
    const auto complete = [&](int64_t bucket) { buckets_.report(bucket, c.gradient, ready); };
    c.row_operation();
    zero_on_gpu(b_.dx, uint64_t(c.elements()) * sizeof(float), gpu_);
    last_norm_backward(c);
    complete(layers());
    int64_t completed_from = layers();
    for (int64_t layer = layers() - 1; layer >= 0; --layer) {
      if (recomputes_) layer_forward(c, layer, nullptr);
      if (!layer_backward(c, layer)) continue;
      for (; completed_from > layer; --completed_from)
        if (completed_from > 1) complete(completed_from - 1);
    }
    c.row_operation();
    kernel::cuda::embed_backward(c.rows(), b_.batch.tokens, b_.vocabulary, embedded_gradient(c),
                                 c.dw(embedding()), b_.order, gpu_);
    complete(0);
  }

  GradientBuckets buckets_;
  kernel::cuda::Products products_;
  WorkClock clock_;
  GpuBuffer activation_memory_, memory_;
};

// What such buffers take, in bytes; needs no GPU.
template <class Buffers>
PassMemory memory_of(Buffers buffers) {
  MemoryPlan activations, rest;
  buffers.place_activations(activations);
  buffers.place_rest(rest);
  return {activations.bytes(), rest.bytes()};
}

}  // namespace deltasane
