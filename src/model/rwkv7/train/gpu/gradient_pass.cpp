#include "model/rwkv7/train/gpu/gradient_pass.h"

#include <algorithm>
#include <vector>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/sums/cuda.h"
#include "model/rwkv7/train/gpu/training_block.h"
#include "model/rwkv7/train/gpu/unsupported.h"

namespace deltasane::rwkv7 {
namespace gpu {
namespace {

constexpr int64_t logit_rows = 4096;  // whose logits are held at a time: they are large

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

// A batch that is being copied to the GPU.
struct PinnedBatch {
  PinnedBuffer tokens, targets, weights;
  GpuEvent copied;
  explicit PinnedBatch(int64_t rows)
      : tokens(uint64_t(rows) * sizeof(int32_t)),
        targets(uint64_t(rows) * sizeof(int32_t)),
        weights(uint64_t(rows) * sizeof(float)) {}
};

template <class Real>
class Pass : public GpuGradientPass<Real> {
 public:
  Pass(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
       const PassSettings& settings, const Gpu& gpu)
      : shape_(shape),
        sane_(sane),
        size_{settings.sequences, settings.time, sane ? settings.time / sane->chunk : 0},
        activations_(settings.activations),
        slots_(shape),
        buckets_(slots_.layout),
        gpu_(gpu),
        products_(gpu, kernel::cuda::Products::autotune) {
    if (sane) side_.emplace(gpu);
    streams_.resize(size_t(shape.layers) + 1);
    layers_.resize(recomputes() ? 1 : size_t(shape.layers));
    const std::string batch = cat(settings.sequences, " x ", settings.time, " tokens");
    activation_memory_ = planned(gpu, cat("the activations of ", shape.layers, " layers, ", batch),
                                 [&](MemoryPlan& plan) { place_activations(plan); });
    memory_ = planned(gpu, cat("logits and gradients of ", batch),
                      [&](MemoryPlan& plan) { place_rest(plan); });
    for (int i = 0; i < 2; ++i) pinned_.emplace_back(rows());
    zero_on_gpu(zero_, uint64_t(shape.channels) * sizeof(float), gpu);
    zero_on_gpu(unused_, uint64_t(shape.channels) * sizeof(float), gpu);
  }

  void add(const GpuParameters<Real>& model, const TrainingBatch& batch,
           const LossSettings& settings, float* gradient, double* loss,
           const GradientReady& ready) override {
    batch.expect(size_.sequences, size_.time, shape_.vocabulary);
    expect_padding_last(batch);
    const GpuPass<Real> c{shape_,
                          slots_,
                          sane_,
                          size_,
                          model.parameters,
                          model.rounded,
                          gradient,
                          products_,
                          recurrence_scratch_,
                          clock_,
                          gpu_,
                          side_ ? &*side_ : nullptr};
    upload(batch, settings);
    forward(c);
    head(c, settings);
    kernel::cuda::add_sum(losses_, rows(), loss, gpu_);
    if (gradient) backward(c, ready);
  }
  void neutralize(bool on) override {
    require(sane_.has_value(), "neutralize is for a model with SANE");
    size_.chunks = on ? size_.time / sane_->chunk : 0;
  }
  WorkClock& clock() override { return clock_; }
  uint64_t bytes() const override { return activation_memory_.size() + memory_.size(); }

 private:
  bool recomputes() const { return activations_ == Activations::recompute; }
  int64_t rows() const { return size_.rows(); }
  int64_t elements() const { return rows() * shape_.channels; }
  kernel::cuda::RowBlock row_block() const {
    return {size_.sequences, size_.time, shape_.channels};
  }
  const LayerBuffers<Real>& of(int64_t layer) const {
    return layers_[recomputes() ? 0 : size_t(layer)];
  }
  GpuTrainingBlock<Real> block(const GpuPass<Real>& c, int64_t layer) const {
    return GpuTrainingBlock<Real>(c, layer, streams_[size_t(layer)], of(layer),
                                  {v_first_, dv_first_, backward_buffers_});
  }

  void place_activations(MemoryPlan& plan);
  void place_rest(MemoryPlan& plan);
  void upload(const TrainingBatch& batch, const LossSettings& settings);
  void forward(const GpuPass<Real>& c);
  void head(const GpuPass<Real>& c, const LossSettings& settings);
  void backward(const GpuPass<Real>& c, const GradientReady& ready);
  void embedding_backward(const GpuPass<Real>& c);

  Rwkv7Shape shape_;
  std::optional<SaneSettings> sane_;
  BatchSize size_;
  Activations activations_;
  ModelSlots slots_;
  GradientBuckets buckets_;
  const Gpu& gpu_;
  kernel::cuda::Products products_;
  std::optional<SideStream> side_;  // with SANE
  kernel::cuda::DeltaRuleScratch recurrence_scratch_;
  WorkClock clock_;

  // Two, so that one is filled while the other is copied.
  std::vector<PinnedBatch> pinned_;
  size_t turn_ = 0;

  // On the GPU; (rows, C) unless said otherwise.
  std::vector<float*> streams_;             // the residual stream before each layer and at the end
  std::vector<LayerBuffers<Real>> layers_;  // of every layer, or of the one that is computed
  BackwardBuffers<Real> backward_buffers_;
  float *embedded_, *dx_, *dv_first_;
  Real *last_, *dlast_, *v_first_;
  Real* logits_;                // (logit_rows, vocabulary)
  int32_t *tokens_, *targets_;  // (rows)
  float* weights_;              // (rows)
  double* losses_;              // (rows)
  float *zero_, *unused_;       // (C)
  int32_t* order_;              // for the embedding's gradient
  GpuBuffer activation_memory_, memory_;
};

template <class Real>
void Pass<Real>::place_activations(MemoryPlan& plan) {
  for (float*& stream : streams_) plan.place(stream, elements());
  // With one set of activations for all layers, the first layer has a gate that it never uses.
  const bool shared = recomputes() && shape_.layers > 1;
  for (LayerBuffers<Real>& layer : layers_)
    layer.place(plan, shape_, size_,
                &layer == layers_.data() && !shared ? LayerBuffers<Real>::Layer::first
                                                    : LayerBuffers<Real>::Layer::later);
}

template <class Real>
void Pass<Real>::place_rest(MemoryPlan& plan) {
  backward_buffers_.place(plan, shape_, size_);
  for (float** one : {&embedded_, &dx_, &dv_first_}) plan.place(*one, elements());
  for (Real** one : {&last_, &dlast_, &v_first_}) plan.place(*one, elements());
  plan.place(logits_, std::min(rows(), logit_rows) * shape_.vocabulary);
  plan.place(tokens_, rows()), plan.place(targets_, rows());
  plan.place(weights_, rows()), plan.place(losses_, rows());
  plan.place(zero_, shape_.channels), plan.place(unused_, shape_.channels);
  plan.place(order_, kernel::cuda::embed_scratch(row_block(), shape_.vocabulary));
}

template <class Real>
void Pass<Real>::upload(const TrainingBatch& batch, const LossSettings& settings) {
  PinnedBatch& host = pinned_[turn_];
  turn_ = (turn_ + 1) % pinned_.size();
  host.copied.wait();
  std::ranges::copy(batch.tokens, host.tokens.as<int32_t>());
  std::ranges::copy(batch.targets, host.targets.as<int32_t>());
  for (int64_t i = 0; i < rows(); ++i)
    host.weights.as<float>()[i] = float(batch.weights[size_t(i)] / settings.weight_total);
  copy_to_gpu(tokens_, host.tokens.as<int32_t>(), host.tokens.size(), gpu_);
  copy_to_gpu(targets_, host.targets.as<int32_t>(), host.targets.size(), gpu_);
  copy_to_gpu(weights_, host.weights.as<float>(), host.weights.size(), gpu_);
  host.copied.record(gpu_);
}

template <class Real>
void Pass<Real>::forward(const GpuPass<Real>& c) {
  float* const x = streams_.front();
  c.row_operation();
  kernel::cuda::embed(row_block(), tokens_, c.w(slots_.embedding), nullptr, nullptr, 0,
                      shape_.embedding_norm ? embedded_ : x, gpu_);
  if (shape_.embedding_norm)
    kernel::cuda::layer_norm(row_block(), embedded_, c.w(slots_.ln0.weight), c.w(slots_.ln0.bias),
                             shape_.norms.layer_eps, x, gpu_);
  for (int64_t layer = 0; layer < shape_.layers; ++layer)
    block(c, layer).forward(streams_[size_t(layer) + 1]);
}

// The losses of all rows, and with a gradient wanted, dlast. Logits are made for some rows at a
// time.
template <class Real>
void Pass<Real>::head(const GpuPass<Real>& c, const LossSettings& settings) {
  const int64_t channels = shape_.channels, vocabulary = shape_.vocabulary;
  const Real* const weight = c.matrix(slots_.head);
  c.clock.begin(Work::head, gpu_);
  kernel::cuda::layer_norm(row_block(), streams_.back(), c.w(slots_.ln_out.weight),
                           c.w(slots_.ln_out.bias), shape_.norms.layer_eps, last_, gpu_);
  for (int64_t from = 0; from < rows(); from += logit_rows) {
    const int64_t some = std::min(logit_rows, rows() - from);
    const Real* const input = last_ + from * channels;
    products_.template multiply<Real, Real>({.form = Form::nt,
                                             .m = some,
                                             .n = vocabulary,
                                             .k = channels,
                                             .a = input,
                                             .b = weight,
                                             .c = logits_});
    kernel::cuda::cross_entropy<Real>({.rows = some,
                                       .vocabulary = vocabulary,
                                       .logits = logits_,
                                       .target = targets_ + from,
                                       .weight = weights_ + from,
                                       .wrap = float(settings.wrap),
                                       .loss = losses_ + from,
                                       .with_gradient = c.gradient != nullptr},
                                      gpu_);
    if (!c.gradient) continue;
    products_.template multiply<Real, float>({.form = Form::tn,
                                              .m = vocabulary,
                                              .n = channels,
                                              .k = some,
                                              .a = logits_,
                                              .b = input,
                                              .c = c.dw(slots_.head),
                                              .add = true});
    products_.template multiply<Real, Real>({.form = Form::nn,
                                             .m = some,
                                             .n = channels,
                                             .k = vocabulary,
                                             .a = logits_,
                                             .b = weight,
                                             .c = dlast_ + from * channels});
  }
}

template <class Real>
void Pass<Real>::backward(const GpuPass<Real>& c, const GradientReady& ready) {
  const auto complete = [&](int64_t bucket) { buckets_.report(bucket, c.gradient, ready); };
  const uint64_t stream_bytes = uint64_t(elements()) * sizeof(float);
  c.row_operation();
  zero_on_gpu(dx_, stream_bytes, gpu_);
  zero_on_gpu(dv_first_, stream_bytes, gpu_);
  layer_norm_backward<Real>(
      {row_block(), shape_.norms.layer_eps, streams_.back(), c.w(slots_.ln_out.weight),
       c.w(slots_.ln_out.bias), dlast_, dx_, c.dw(slots_.ln_out.weight), c.dw(slots_.ln_out.bias),
       zero_, unused_, backward_buffers_.sums, rounded_copy(backward_buffers_.dresult)},
      gpu_);
  complete(shape_.layers);
  // Where activations are kept, SANE's own parameters have their gradients for several layers at
  // once; none of these layers is complete before.
  const bool one_by_one = !c.size.chunks || recomputes();
  const int64_t at_once = one_by_one ? 1 : most_tau_layers<Real>;
  int64_t completed_from = shape_.layers;
  for (int64_t layer = shape_.layers - 1; layer >= 0; --layer) {
    if (recomputes()) block(c, layer).forward(nullptr);
    block(c, layer).backward(dx_);
    if (const int64_t open = completed_from - layer; open == at_once || layer == 0) {
      if (c.size.chunks) tau_weights_backward<Real>(c, layer, {&of(layer), size_t(open)});
      for (; completed_from > layer; --completed_from)
        if (completed_from > 1) complete(completed_from - 1);
    }
  }
  embedding_backward(c);
  complete(0);
}

template <class Real>
void Pass<Real>::embedding_backward(const GpuPass<Real>& c) {
  c.row_operation();
  const float* drows = dx_;
  if (shape_.embedding_norm) {
    float* const dembedded = dv_first_;  // free by now
    zero_on_gpu(dembedded, uint64_t(elements()) * sizeof(float), gpu_);
    layer_norm_backward<float>(
        {row_block(), shape_.norms.layer_eps, embedded_, c.w(slots_.ln0.weight),
         c.w(slots_.ln0.bias), dx_, dembedded, c.dw(slots_.ln0.weight), c.dw(slots_.ln0.bias),
         zero_, unused_, backward_buffers_.sums},
        gpu_);
    drows = dembedded;
  }
  kernel::cuda::embed_backward(row_block(), tokens_, shape_.vocabulary, drows,
                               c.dw(slots_.embedding), order_, gpu_);
}

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

template std::unique_ptr<GpuGradientPass<float>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);
template std::unique_ptr<GpuGradientPass<bf16>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);

}  // namespace deltasane::rwkv7
