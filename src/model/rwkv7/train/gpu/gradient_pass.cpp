#include "model/rwkv7/train/gpu/gradient_pass.h"

#include <algorithm>
#include <vector>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/sums/cuda.h"
#include "model/rwkv7/train/gpu/pass_buffers.h"
#include "model/rwkv7/train/gpu/training_block.h"
#include "model/rwkv7/train/gpu/unsupported.h"

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

// A batch that is being copied to the GPU.
struct PinnedBatch {
  PinnedBuffer tokens, targets, weights, present, whole;
  GpuEvent copied;
  PinnedBatch(int64_t rows, int64_t ends)
      : tokens(uint64_t(rows) * sizeof(int32_t)),
        targets(uint64_t(rows) * sizeof(int32_t)),
        weights(uint64_t(rows) * sizeof(float)),
        present(uint64_t(rows)),
        whole(uint64_t(std::max<int64_t>(ends, 1))) {}
};

template <class Real>
class Pass : public GpuGradientPass<Real> {
 public:
  Pass(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
       const PassSettings& settings, const Gpu& gpu)
      : shape_(shape),
        sane_(sane),
        size_(batch_size(sane, settings)),
        activations_(settings.activations),
        slots_(shape),
        buckets_(slots_.layout),
        gpu_(gpu),
        products_(gpu, kernel::cuda::Products::autotune),
        b_(shape, settings.activations) {
    if (sane) side_.emplace(gpu);
    const std::string batch = cat(settings.sequences, " x ", settings.time, " tokens");
    activation_memory_ = planned(gpu, cat("the activations of ", shape.layers, " layers, ", batch),
                                 [&](MemoryPlan& plan) { b_.place_activations(plan, shape_, size_); });
    memory_ = planned(gpu, cat("logits and gradients of ", batch),
                      [&](MemoryPlan& plan) { b_.place_rest(plan, shape_, size_); });
    for (int i = 0; i < 2; ++i) pinned_.emplace_back(rows(), ends());
    zero_on_gpu(b_.zero, uint64_t(shape.channels) * sizeof(float), gpu);
    zero_on_gpu(b_.unused, uint64_t(shape.channels) * sizeof(float), gpu);
  }

  void add(const GpuParameters<Real>& model, const TrainingBatch& batch,
           const LossSettings& settings, float* gradient, double* loss,
           const GradientReady& ready) override {
    batch.expect(size_.sequences, size_.time, shape_.vocabulary);
    expect_padding_at_the_ends(batch);
    const bool padded = has_padding_in_front(batch);
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
                          side_ ? &*side_ : nullptr,
                          padded ? b_.present : nullptr,
                          padded && size_.chunks ? b_.whole : nullptr};
    upload(batch, settings);
    forward(c);
    head(c, settings);
    kernel::cuda::add_sum(b_.losses, rows(), loss, gpu_);
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
  int64_t ends() const { return size_.sequences * size_.chunks; }
  int64_t elements() const { return rows() * shape_.channels; }
  kernel::cuda::RowBlock row_block() const {
    return {size_.sequences, size_.time, shape_.channels};
  }
  const LayerBuffers<Real>& of(int64_t layer) const {
    return b_.layers[recomputes() ? 0 : size_t(layer)];
  }
  GpuTrainingBlock<Real> block(const GpuPass<Real>& c, int64_t layer) const {
    return GpuTrainingBlock<Real>(c, layer, b_.streams[size_t(layer)], of(layer),
                                  {b_.v_first, b_.dv_first, b_.backward});
  }

  void upload(const TrainingBatch& batch, const LossSettings& settings);
  void upload_padding(const TrainingBatch& batch, PinnedBatch& host);
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

  PassBuffers<Real> b_;
  GpuBuffer activation_memory_, memory_;
};

template <class Real>
void Pass<Real>::upload(const TrainingBatch& batch, const LossSettings& settings) {
  PinnedBatch& host = pinned_[turn_];
  turn_ = (turn_ + 1) % pinned_.size();
  host.copied.wait();
  std::ranges::copy(batch.tokens, host.tokens.as<int32_t>());
  std::ranges::copy(batch.targets, host.targets.as<int32_t>());
  for (int64_t i = 0; i < rows(); ++i)
    host.weights.as<float>()[i] = float(batch.weights[size_t(i)] / settings.weight_total);
  copy_to_gpu(b_.tokens, host.tokens.as<int32_t>(), host.tokens.size(), gpu_);
  copy_to_gpu(b_.targets, host.targets.as<int32_t>(), host.targets.size(), gpu_);
  copy_to_gpu(b_.weights, host.weights.as<float>(), host.weights.size(), gpu_);
  if (has_padding_in_front(batch)) upload_padding(batch, host);
  host.copied.record(gpu_);
}

template <class Real>
void Pass<Real>::upload_padding(const TrainingBatch& batch, PinnedBatch& host) {
  uint8_t *const present = host.present.as<uint8_t>(), *const whole = host.whole.as<uint8_t>();
  std::ranges::copy(batch.present, present);
  for (int64_t end = 0; end < ends(); ++end) {
    const int64_t sequence = end / size_.chunks, chunk = end % size_.chunks;
    const uint8_t* const begin = present + sequence * size_.time + chunk * sane_->chunk;
    whole[end] = std::ranges::find(begin, begin + sane_->chunk, 0) == begin + sane_->chunk;
  }
  copy_to_gpu(b_.present, present, uint64_t(rows()), gpu_);
  if (ends()) copy_to_gpu(b_.whole, whole, uint64_t(ends()), gpu_);
}

template <class Real>
void Pass<Real>::forward(const GpuPass<Real>& c) {
  float* const x = b_.streams.front();
  c.row_operation();
  kernel::cuda::embed(row_block(), b_.tokens, c.w(slots_.embedding), nullptr, nullptr, 0,
                      shape_.embedding_norm ? b_.embedded : x, gpu_);
  if (shape_.embedding_norm)
    kernel::cuda::layer_norm(row_block(), b_.embedded, c.w(slots_.ln0.weight), c.w(slots_.ln0.bias),
                             shape_.norms.layer_eps, x, gpu_);
  for (int64_t layer = 0; layer < shape_.layers; ++layer)
    block(c, layer).forward(b_.streams[size_t(layer) + 1]);
}

// The losses of all rows, and with a gradient wanted, dlast. Logits are made for some rows at a
// time.
template <class Real>
void Pass<Real>::head(const GpuPass<Real>& c, const LossSettings& settings) {
  const int64_t channels = shape_.channels, vocabulary = shape_.vocabulary;
  const Real* const weight = c.matrix(slots_.head);
  c.clock.begin(Work::head, gpu_);
  kernel::cuda::layer_norm(row_block(), b_.streams.back(), c.w(slots_.ln_out.weight),
                           c.w(slots_.ln_out.bias), shape_.norms.layer_eps, b_.last, gpu_);
  for (int64_t from = 0; from < rows(); from += logit_rows) {
    const int64_t some = std::min(logit_rows, rows() - from);
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
                                       .target = b_.targets + from,
                                       .weight = b_.weights + from,
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
                                              .c = c.dw(slots_.head),
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

template <class Real>
void Pass<Real>::backward(const GpuPass<Real>& c, const GradientReady& ready) {
  const auto complete = [&](int64_t bucket) { buckets_.report(bucket, c.gradient, ready); };
  const uint64_t stream_bytes = uint64_t(elements()) * sizeof(float);
  c.row_operation();
  zero_on_gpu(b_.dx, stream_bytes, gpu_);
  zero_on_gpu(b_.dv_first, stream_bytes, gpu_);
  layer_norm_backward<Real>(
      {row_block(), shape_.norms.layer_eps, b_.streams.back(), c.w(slots_.ln_out.weight),
       c.w(slots_.ln_out.bias), b_.dlast, b_.dx, c.dw(slots_.ln_out.weight), c.dw(slots_.ln_out.bias),
       b_.zero, b_.unused, b_.backward.sums, rounded_copy(b_.backward.dresult)},
      gpu_);
  complete(shape_.layers);
  // Where activations are kept, SANE's own parameters have their gradients for several layers at
  // once; none of these layers is complete before.
  const bool one_by_one = !c.size.chunks || recomputes();
  const int64_t at_once = one_by_one ? 1 : most_tau_layers<Real>;
  int64_t completed_from = shape_.layers;
  for (int64_t layer = shape_.layers - 1; layer >= 0; --layer) {
    if (recomputes()) block(c, layer).forward(nullptr);
    block(c, layer).backward(b_.dx);
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
  const float* drows = b_.dx;
  if (shape_.embedding_norm) {
    float* const dembedded = b_.dv_first;  // free by now
    zero_on_gpu(dembedded, uint64_t(elements()) * sizeof(float), gpu_);
    layer_norm_backward<float>(
        {row_block(), shape_.norms.layer_eps, b_.embedded, c.w(slots_.ln0.weight),
         c.w(slots_.ln0.bias), b_.dx, dembedded, c.dw(slots_.ln0.weight), c.dw(slots_.ln0.bias),
         b_.zero, b_.unused, b_.backward.sums},
        gpu_);
    drows = dembedded;
  }
  kernel::cuda::embed_backward(row_block(), b_.tokens, shape_.vocabulary, drows,
                               c.dw(slots_.embedding), b_.order, gpu_);
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

PassMemory gpu_gradient_pass_memory(const Rwkv7Shape& shape,
                                    const std::optional<SaneSettings>& sane,
                                    const PassSettings& settings) {
  const auto counted = [&]<class Real>(Real) {
    gpu::PassBuffers<Real> buffers(shape, settings.activations);
    const gpu::BatchSize size = gpu::batch_size(sane, settings);
    MemoryPlan activations, rest;
    buffers.place_activations(activations, shape, size);
    buffers.place_rest(rest, shape, size);
    return PassMemory{activations.bytes(), rest.bytes()};
  };
  return settings.precision == Precision::bf16 ? counted(bf16()) : counted(float());
}

template std::unique_ptr<GpuGradientPass<float>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);
template std::unique_ptr<GpuGradientPass<bf16>> make_gpu_gradient_pass(
    const Rwkv7Shape&, const std::optional<SaneSettings>&, const PassSettings&, const Gpu&);

}  // namespace deltasane::rwkv7
