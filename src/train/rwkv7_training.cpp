#include "train/rwkv7_training.h"
#include <algorithm>
#include <vector>

#include "kernel/cross_entropy/cross_entropy.h"
#include "kernel/rwkv7/gradient.h"
#include "train/batch_check.h"
#include "train/layer_pass.h"

namespace deltasane::train {
namespace {

constexpr float embedding_norm_eps = 1e-5f;
constexpr int64_t logit_rows = 512;  // whose logits are held at a time

}  // namespace

struct Rwkv7Training::State {
  ParameterLayout layout;
  std::optional<SaneSettings> sane;
  int64_t sequences, time;
  Activations activations;
  std::vector<LayerActivations> layers;  // of every layer, or of the one that is computed
  std::vector<Tensor<float>> inputs;     // of every layer, where the rest is computed again
  Tensor<float> embedded, x, last, dx, dlast, v_first, dv_first, logits;
  BackwardScratch scratch;
  std::vector<double> losses;
  std::vector<float> weights;
  GradientStretches stretches;
  std::optional<Rounding> rounding;
  double recurrence_seconds = 0;

  int64_t rows() const { return sequences * time; }
  int64_t chunks() const { return sane ? time / sane->chunk : 0; }

  State(const ParameterLayout& l, const std::optional<SaneSettings>& s, int64_t n, int64_t t,
        Activations a, Precision precision)
      : layout(l),
        sane(s),
        sequences(n),
        time(t),
        activations(a),
        scratch(l.shape(), n, s ? t / s->chunk : 0, n * t),
        stretches(l) {
    if (precision == Precision::bf16) rounding.emplace();
    const Rwkv7Shape& shape = layout.shape();
    for (Tensor<float>* one : {&embedded, &x, &last, &dx, &dlast, &v_first, &dv_first})
      *one = Tensor<float>({rows(), shape.channels});
    logits = Tensor<float>({std::min(rows(), logit_rows), shape.vocabulary});
    // With one set of activations for all layers, the first layer has a gate that it never uses.
    const int64_t sets = activations == Activations::keep ? shape.layers : 1;
    for (int64_t i = 0; i < sets; ++i)
      layers.emplace_back(shape, sequences, chunks(), rows(), i == 0 && shape.layers == 1);
    if (activations == Activations::recompute)
      for (int64_t i = 0; i < shape.layers; ++i)
        inputs.push_back(Tensor<float>({rows(), shape.channels}));
    losses.resize(size_t(rows()));
    weights.resize(size_t(rows()));
  }

  LayerActivations& of(int64_t layer) {
    return layers[activations == Activations::keep ? size_t(layer) : 0];
  }

  PassContext context(std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, const kernel::Cpu& cpu) {
    PassContext c{layout, sane, sequences, time, parameters, gradient, cpu};
    recurrence_seconds = 0;
    c.recurrence_seconds = &recurrence_seconds;
    if (!batch.present.empty()) c.present = {batch.present.data(), {sequences, time}};
    if (rounding) {
      rounding->take_parameters(parameters, cpu);
      c.rounding = &*rounding;
    }
    return c;
  }

  void check(const Batch& batch) const {
    check_batch(batch, sequences, time, layout.shape().vocabulary);
  }

  void forward(const PassContext& c, const Batch& batch);
  double head(const PassContext& c, const Batch& batch, const LossSettings& settings);
  void backward(const PassContext& c, const Batch& batch, const FinishedStretch& finished);
};

void Rwkv7Training::State::forward(const PassContext& c, const Batch& batch) {
  const Rwkv7Shape& shape = layout.shape();
  const float* const table = c.w("emb.weight");
  c.cpu.threads.parallel(rows(), [&](int64_t row) {
    std::copy_n(table + batch.tokens[size_t(row)] * shape.channels, shape.channels,
                embedded.data() + row * shape.channels);
  });
  if (shape.embedding_norm)
    kernel::layer_norm(embedded.view(), c.w("blocks.0.ln0.weight"), c.w("blocks.0.ln0.bias"),
                       embedding_norm_eps, x.view(), c.cpu);
  else
    std::ranges::copy(embedded.span(), x.data());
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    LayerActivations& act = of(layer);
    std::ranges::copy(x.span(), act.x.data());
    if (!inputs.empty()) std::ranges::copy(x.span(), inputs[size_t(layer)].data());
    layer_forward(c, layer, act, v_first, scratch, x);
  }
  kernel::layer_norm(x.view(), c.w("ln_out.weight"), c.w("ln_out.bias"), embedding_norm_eps,
                     last.view(), c.cpu);
}

// The loss, and with a gradient wanted, dlast. Logits are made for some rows at a time: they are
// larger than everything else.
double Rwkv7Training::State::head(const PassContext& c, const Batch& batch,
                                  const LossSettings& settings) {
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = float(batch.weights[i] / settings.weight_total);
  for (int64_t from = 0; from < rows(); from += logit_rows) {
    const int64_t some = std::min(logit_rows, rows() - from);
    const View<float> here = logits.view().part(0, 0, some);
    const View<float> input = last.view().part(0, from, some);
    linear(c, "head.weight", input, here);
    const auto part = [&](auto& all) { return std::span(all).subspan(size_t(from), size_t(some)); };
    kernel::cross_entropy(
        {here, part(batch.targets), part(weights), float(settings.wrap), part(losses)}, c.cpu);
    if (!c.gradient.empty())
      linear_backward(c, "head.weight", input, here, dlast.view().part(0, from, some));
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

void Rwkv7Training::State::backward(const PassContext& c, const Batch& batch,
                                    const FinishedStretch& finished) {
  const Rwkv7Shape& shape = layout.shape();
  const auto finish = [&](int64_t stage) { stretches.tell(stage, c.gradient.data(), finished); };
  dx.fill(0);
  dv_first.fill(0);
  kernel::layer_norm_backward({x.view(), c.w("ln_out.weight"), embedding_norm_eps, dlast.view(),
                               dx.view(), c.dw("ln_out.weight"), c.dw("ln_out.bias")},
                              c.cpu);
  finish(shape.layers);
  for (int64_t layer = shape.layers - 1; layer >= 0; --layer) {
    LayerActivations& act = of(layer);
    if (activations == Activations::recompute) {
      std::ranges::copy(inputs[size_t(layer)].span(), act.x.data());
      layer_forward(c, layer, act, v_first, scratch, x);
    }
    layer_backward(c, layer, act, v_first, dv_first, scratch, dx);
    if (layer > 0) finish(layer);
  }
  Tensor<float>& drows = dlast;  // free by now
  if (shape.embedding_norm) {
    drows.fill(0);
    kernel::layer_norm_backward(
        {embedded.view(), c.w("blocks.0.ln0.weight"), embedding_norm_eps, dx.view(), drows.view(),
         c.dw("blocks.0.ln0.weight"), c.dw("blocks.0.ln0.bias")},
        c.cpu);
  }
  const float* const from = shape.embedding_norm ? drows.data() : dx.data();
  float* const to = c.dw("emb.weight");
  constexpr int64_t together = 64;  // channels; each piece meets the tokens in their order
  c.cpu.threads.parallel((shape.channels + together - 1) / together, [&](int64_t piece) {
    const int64_t begin = piece * together, end = std::min(shape.channels, begin + together);
    for (int64_t row = 0; row < rows(); ++row) {
      float* const sum = to + batch.tokens[size_t(row)] * shape.channels;
      for (int64_t i = begin; i < end; ++i) sum[i] += from[row * shape.channels + i];
    }
  });
  finish(0);
}

Rwkv7Training::Rwkv7Training(const ParameterLayout& layout, const std::optional<SaneSettings>& sane,
                             int64_t sequences, int64_t time, Activations activations,
                             Precision precision)
    : state_(std::make_unique<State>(layout, sane, sequences, time, activations, precision)) {
  require(layout.shape().sane == sane.has_value(), "a SANE model has SANE's settings");
  require(sequences > 0 && time > 0, "a batch has tokens");
}

Rwkv7Training::~Rwkv7Training() = default;
Rwkv7Training::Rwkv7Training(Rwkv7Training&&) noexcept = default;

double Rwkv7Training::recurrence_seconds() const { return state_->recurrence_seconds; }

double Rwkv7Training::gradient(std::span<const float> parameters, const Batch& batch,
                               const LossSettings& settings, std::span<float> gradient,
                               const kernel::Cpu& cpu, const FinishedStretch& finished) {
  State& s = *state_;
  s.check(batch);
  const PassContext c = s.context(parameters, batch, gradient, cpu);
  s.forward(c, batch);
  const double loss = s.head(c, batch, settings);
  s.backward(c, batch, finished);
  return loss;
}

double Rwkv7Training::loss(std::span<const float> parameters, const Batch& batch,
                           const LossSettings& settings, const kernel::Cpu& cpu) {
  State& s = *state_;
  s.check(batch);
  const PassContext c = s.context(parameters, batch, {}, cpu);
  s.forward(c, batch);
  return s.head(c, batch, settings);
}

}  // namespace deltasane::train
