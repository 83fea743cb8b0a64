#include "train/gpu/gpu_training.h"

#include <algorithm>
#include <vector>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/sums/cuda.h"
#include "train/batch_check.h"
#include "train/gpu/gpu_layer.h"
#include "train/gpu/gpu_refusals.h"

namespace deltasane::train {
namespace gpu {
namespace {

constexpr float model_norm_eps = 1e-5f;  // of ln0 and ln_out
constexpr int64_t logit_rows = 4096;     // whose logits are held at a time: they are large

// The gradient of a plain layer norm: of norm_shift with one mix that takes nothing of the row
// before. `zero` and `unused`: (C), mu and what its gradient is added to.
template <class Real>
struct LayerNormGradient {
  kernel::cuda::RowBlock rows;
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
                                                  .eps = model_norm_eps,
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

}  // namespace

// A batch on its way to the GPU.
struct PinnedBatch {
  PinnedBuffer tokens, targets, weights;
  GpuEvent copied;
  explicit PinnedBatch(int64_t rows)
      : tokens(uint64_t(rows) * sizeof(int32_t)),
        targets(uint64_t(rows) * sizeof(int32_t)),
        weights(uint64_t(rows) * sizeof(float)) {}
};

template <class Real>
struct TrainingState {
  ParameterLayout layout;
  std::optional<SaneSettings> sane;
  BatchSize size;
  Activations activations;
  GradientStretches stretches;
  const Gpu& gpu;
  kernel::cuda::Products products;
  std::optional<SideQueue> side;  // with SANE
  kernel::cuda::DeltaRuleScratch recurrence_scratch;
  WorkClock clock;

  // Two, so that one is filled while the other is on its way.
  std::vector<PinnedBatch> pinned;
  size_t turn = 0;

  // On the GPU; (rows, C) unless said otherwise.
  std::vector<float*> streams;             // the residual stream before each layer and at the end
  std::vector<LayerBuffers<Real>> layers;  // of every layer, or of the one that is computed
  BackwardBuffers<Real> backward_buffers;
  float *embedded, *dx, *dv_first;
  Real *last, *dlast, *v_first;
  Real* logits;               // (logit_rows, vocabulary)
  int32_t *tokens, *targets;  // (rows)
  float* weights;             // (rows)
  double* losses;             // (rows)
  float *zero, *unused;       // (C)
  int32_t* order;             // for the embedding's gradient
  GpuBuffer activation_memory, memory;

  TrainingState(const ParameterLayout& l, const std::optional<SaneSettings>& s, int64_t n,
                int64_t t, Activations a, const Gpu& g)
      : layout(l),
        sane(s),
        size{n, t, s ? t / s->chunk : 0},
        activations(a),
        stretches(l),
        gpu(g),
        products(g, kernel::cuda::Products::for_few_shapes) {
    if (sane) side.emplace(g);
    const Rwkv7Shape& shape = layout.shape();
    streams.resize(size_t(shape.layers) + 1);
    layers.resize(activations == Activations::keep ? size_t(shape.layers) : 1);
    const std::string batch = cat(n, " x ", t, " tokens");
    activation_memory = planned(gpu, cat("the activations of ", shape.layers, " layers, ", batch),
                                [&](MemoryPlan& plan) { place_activations(plan); });
    memory = planned(gpu, cat("logits and gradients of ", batch),
                     [&](MemoryPlan& plan) { place_rest(plan); });
    for (int i = 0; i < 2; ++i) pinned.emplace_back(rows());
    zero_on_gpu(zero, uint64_t(shape.channels) * sizeof(float), gpu);
    zero_on_gpu(unused, uint64_t(shape.channels) * sizeof(float), gpu);
  }

  int64_t rows() const { return size.rows(); }
  int64_t elements() const { return rows() * layout.shape().channels; }
  kernel::cuda::RowBlock block() const {
    return {size.sequences, size.time, layout.shape().channels};
  }

  void place_activations(MemoryPlan& plan) {
    const Rwkv7Shape& shape = layout.shape();
    for (float*& stream : streams) plan.place(stream, elements());
    // With one set of activations for all layers, the first layer has a gate that it never uses.
    const bool shared = activations == Activations::recompute && shape.layers > 1;
    for (LayerBuffers<Real>& layer : layers)
      layer.place(plan, shape, size,
                  &layer == layers.data() && !shared ? LayerBuffers<Real>::Layer::first
                                                     : LayerBuffers<Real>::Layer::later);
  }

  void place_rest(MemoryPlan& plan) {
    const Rwkv7Shape& shape = layout.shape();
    backward_buffers.place(plan, shape, size);
    for (float** one : {&embedded, &dx, &dv_first}) plan.place(*one, elements());
    for (Real** one : {&last, &dlast, &v_first}) plan.place(*one, elements());
    plan.place(logits, std::min(rows(), logit_rows) * shape.vocabulary);
    plan.place(tokens, rows()), plan.place(targets, rows());
    plan.place(weights, rows()), plan.place(losses, rows());
    plan.place(zero, shape.channels), plan.place(unused, shape.channels);
    plan.place(order, kernel::cuda::embed_scratch(block(), shape.vocabulary));
  }

  const LayerBuffers<Real>& of(int64_t layer) const {
    return layers[activations == Activations::keep ? size_t(layer) : 0];
  }

  void upload(const Batch& batch, const LossSettings& settings);
  void forward(const GpuPass<Real>& c);
  void head(const GpuPass<Real>& c, const LossSettings& settings);
  void backward(const GpuPass<Real>& c, const FinishedStretch& finished);
};

template <class Real>
void TrainingState<Real>::upload(const Batch& batch, const LossSettings& settings) {
  PinnedBatch& host = pinned[turn];
  turn = (turn + 1) % pinned.size();
  host.copied.wait();
  std::ranges::copy(batch.tokens, host.tokens.as<int32_t>());
  std::ranges::copy(batch.targets, host.targets.as<int32_t>());
  for (int64_t i = 0; i < rows(); ++i)
    host.weights.as<float>()[i] = float(batch.weights[size_t(i)] / settings.weight_total);
  copy_to_gpu(tokens, host.tokens.as<int32_t>(), host.tokens.size(), gpu);
  copy_to_gpu(targets, host.targets.as<int32_t>(), host.targets.size(), gpu);
  copy_to_gpu(weights, host.weights.as<float>(), host.weights.size(), gpu);
  host.copied.record(gpu);
}

template <class Real>
void TrainingState<Real>::forward(const GpuPass<Real>& c) {
  const Rwkv7Shape& shape = layout.shape();
  float* const x = streams.front();
  c.row_operation();
  kernel::cuda::embed(block(), tokens, c.w("emb.weight"), nullptr, nullptr, 0,
                      shape.embedding_norm ? embedded : x, gpu);
  if (shape.embedding_norm)
    kernel::cuda::layer_norm(block(), embedded, c.w("blocks.0.ln0.weight"),
                             c.w("blocks.0.ln0.bias"), model_norm_eps, x, gpu);
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    layer_forward(c, layer, streams[size_t(layer)], of(layer), v_first, streams[size_t(layer) + 1]);
}

// The losses of all rows, and with a gradient wanted, dlast. Logits are made for some rows at a
// time.
template <class Real>
void TrainingState<Real>::head(const GpuPass<Real>& c, const LossSettings& settings) {
  const int64_t channels = layout.shape().channels, vocabulary = layout.shape().vocabulary;
  const Real* const weight = c.matrix("head.weight");
  c.clock.begin(Work::head, gpu);
  kernel::cuda::layer_norm(block(), streams.back(), c.w("ln_out.weight"), c.w("ln_out.bias"),
                           model_norm_eps, last, gpu);
  for (int64_t from = 0; from < rows(); from += logit_rows) {
    const int64_t some = std::min(logit_rows, rows() - from);
    const Real* const input = last + from * channels;
    products.template multiply<Real, Real>({.form = Form::nt,
                                            .m = some,
                                            .n = vocabulary,
                                            .k = channels,
                                            .a = input,
                                            .b = weight,
                                            .c = logits});
    kernel::cuda::cross_entropy<Real>({.rows = some,
                                       .vocabulary = vocabulary,
                                       .logits = logits,
                                       .target = targets + from,
                                       .weight = weights + from,
                                       .wrap = float(settings.wrap),
                                       .loss = losses + from,
                                       .with_gradient = c.gradient != nullptr},
                                      gpu);
    if (!c.gradient) continue;
    products.template multiply<Real, float>({.form = Form::tn,
                                             .m = vocabulary,
                                             .n = channels,
                                             .k = some,
                                             .a = logits,
                                             .b = input,
                                             .c = c.dw("head.weight"),
                                             .add = true});
    products.template multiply<Real, Real>({.form = Form::nn,
                                            .m = some,
                                            .n = channels,
                                            .k = vocabulary,
                                            .a = logits,
                                            .b = weight,
                                            .c = dlast + from * channels});
  }
}

template <class Real>
void TrainingState<Real>::backward(const GpuPass<Real>& c, const FinishedStretch& finished) {
  const Rwkv7Shape& shape = layout.shape();
  const auto finish = [&](int64_t stage) { stretches.tell(stage, c.gradient, finished); };
  const uint64_t stream_bytes = uint64_t(elements()) * sizeof(float);
  c.row_operation();
  zero_on_gpu(dx, stream_bytes, gpu);
  zero_on_gpu(dv_first, stream_bytes, gpu);
  layer_norm_backward<Real>({block(), streams.back(), c.w("ln_out.weight"), c.w("ln_out.bias"),
                             dlast, dx, c.dw("ln_out.weight"), c.dw("ln_out.bias"), zero, unused,
                             backward_buffers.sums, rounded_copy(backward_buffers.dresult)},
                            gpu);
  finish(shape.layers);
  // Where activations are kept, SANE's own parameters have their gradients for several layers at
  // once; none of these layers is finished before.
  const bool one_by_one = !c.size.chunks || activations == Activations::recompute;
  const int64_t at_once = one_by_one ? 1 : most_threshold_layers<Real>;
  int64_t finished_from = shape.layers;
  for (int64_t layer = shape.layers - 1; layer >= 0; --layer) {
    const float* const x = streams[size_t(layer)];
    if (activations == Activations::recompute)
      layer_forward<Real>(c, layer, x, of(layer), v_first, nullptr);
    layer_backward<Real>(c, layer, x, of(layer), v_first, dv_first, backward_buffers, dx);
    if (const int64_t open = finished_from - layer; open == at_once || layer == 0) {
      if (c.size.chunks) threshold_weights_backward<Real>(c, layer, {&of(layer), size_t(open)});
      for (; finished_from > layer; --finished_from)
        if (finished_from > 1) finish(finished_from - 1);
    }
  }
  c.row_operation();
  const float* drows = dx;
  if (shape.embedding_norm) {
    float* const dembedded = dv_first;  // free by now
    zero_on_gpu(dembedded, stream_bytes, gpu);
    layer_norm_backward<float>(
        {block(), embedded, c.w("blocks.0.ln0.weight"), c.w("blocks.0.ln0.bias"), dx, dembedded,
         c.dw("blocks.0.ln0.weight"), c.dw("blocks.0.ln0.bias"), zero, unused,
         backward_buffers.sums},
        gpu);
    drows = dembedded;
  }
  kernel::cuda::embed_backward(block(), tokens, shape.vocabulary, drows, c.dw("emb.weight"), order,
                               gpu);
  finish(0);
}

}  // namespace gpu

template <class Real>
GpuTraining<Real>::GpuTraining(const ParameterLayout& layout,
                               const std::optional<SaneSettings>& sane, int64_t sequences,
                               int64_t time, Activations activations, const Gpu& device) {
  require(layout.shape().sane == sane.has_value(), "a SANE model has SANE's settings");
  require(sequences > 0 && time > 0, "a batch has tokens");
  gpu::expect_trainable(layout.shape(), sane);
  state_ = std::make_unique<gpu::TrainingState<Real>>(layout, sane, sequences, time, activations,
                                                      device);
}

template <class Real>
GpuTraining<Real>::~GpuTraining() = default;

template <class Real>
void GpuTraining<Real>::add(const GpuModel<Real>& model, const Batch& batch,
                            const LossSettings& settings, float* gradient, double* loss,
                            const FinishedStretch& finished) {
  gpu::TrainingState<Real>& s = *state_;
  check_batch(batch, s.size.sequences, s.size.time, s.layout.shape().vocabulary);
  gpu::expect_padding_last(batch);
  const gpu::GpuPass<Real> c{s.layout,
                             s.sane,
                             s.size,
                             model.parameters,
                             model.rounded,
                             gradient,
                             s.products,
                             s.recurrence_scratch,
                             s.clock,
                             s.gpu,
                             s.side ? &*s.side : nullptr};
  s.upload(batch, settings);
  s.forward(c);
  s.head(c, settings);
  kernel::cuda::add_sum(s.losses, s.rows(), loss, s.gpu);
  if (gradient) s.backward(c, finished);
}

template <class Real>
void GpuTraining<Real>::neutralize(bool on) {
  gpu::TrainingState<Real>& s = *state_;
  require(s.sane.has_value(), "neutralize is for a model with SANE");
  s.size.chunks = on ? s.size.time / s.sane->chunk : 0;
}

template <class Real>
gpu::WorkClock& GpuTraining<Real>::clock() {
  return state_->clock;
}

template <class Real>
uint64_t GpuTraining<Real>::bytes() const {
  return state_->activation_memory.size() + state_->memory.size();
}

template class GpuTraining<float>;
template class GpuTraining<bf16>;

}  // namespace deltasane::train
