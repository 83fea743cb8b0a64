#include "model/rwkv7/reference/reference.h"

#include "kernel/cross_entropy/reference.h"
#include "model/rwkv7/reference/reference_layers.h"
#include "model/rwkv7/train/layout.h"

namespace deltasane::reference {
namespace {

using namespace layers;

// One sequence from the beginning of a stream, with all that its layers keep.
template <class Real>
struct Sequence {
  const Model<Real>& m;
  std::span<const int32_t> tokens;
  Rows<Real> embedded, x, last, logits, v_first;
  std::vector<TimeMix<Real>> time_mix;
  std::vector<ChannelMix<Real>> channel_mix;
  std::vector<Rows<Real>> x_att, x_ffn;  // the residual stream before each of them

  Norm<Real> ln0() const { return {m, "blocks.0.ln0"}; }
  Norm<Real> ln1(int64_t layer) const { return {m, cat("blocks.", layer, ".ln1")}; }
  Norm<Real> ln2(int64_t layer) const { return {m, cat("blocks.", layer, ".ln2")}; }
  Norm<Real> ln_out() const { return {m, "ln_out"}; }
  Linear<Real> head() const { return {m, "head.weight"}; }

  Sequence(const Model<Real>& model, std::span<const int32_t> ids) : m(model), tokens(ids) {
    const auto n = size_t(m.shape.channels);
    for (const int32_t token : tokens) {
      const auto row = m.w("emb.weight").subspan(size_t(token) * n, n);
      embedded.insert(embedded.end(), row.begin(), row.end());
    }
    x = m.shape.embedding_norm ? ln0().forward(embedded) : embedded;
    for (int64_t layer = 0; layer < m.shape.layers; ++layer) {
      x_att.push_back(x);
      time_mix.emplace_back(m, layer);
      add(time_mix.back().forward(ln1(layer).forward(x), v_first), x);
      x_ffn.push_back(x);
      channel_mix.push_back({m, cat("blocks.", layer, ".ffn."), {}, {}, {}, {}});
      add(channel_mix.back().forward(ln2(layer).forward(x)), x);
    }
    last = ln_out().forward(x);
    logits = head().forward(last);
  }

  void backward(const Rows<Real>& dlogits) {
    const auto n = size_t(m.shape.channels);
    Rows<Real> dx(x.size(), Real(0)), dv_first(x.size(), Real(0));
    ln_out().backward(x, head().backward(last, dlogits), dx);
    for (int64_t layer = m.shape.layers - 1; layer >= 0; --layer) {
      const auto i = size_t(layer);
      ln2(layer).backward(x_ffn[i], channel_mix[i].backward(dx), dx);
      ln1(layer).backward(x_att[i], time_mix[i].backward(dx, v_first, dv_first), dx);
    }
    if (m.shape.embedding_norm) {
      Rows<Real> dembedded(x.size(), Real(0));
      ln0().backward(embedded, dx, dembedded);
      dx = dembedded;
    }
    const std::span<Real> dtable = m.dw("emb.weight");
    for (size_t t = 0; t < tokens.size(); ++t)
      for (size_t c = 0; c < n; ++c) dtable[size_t(tokens[t]) * n + c] += dx[t * n + c];
  }
};

// Adds to the loss; logits become their gradient.
template <class Real>
void add_loss(std::span<const int32_t> targets, std::span<const float> weights,
              const LossSettings& settings, Rows<Real>& logits, TrainingLoss<Real>& loss) {
  const size_t vocabulary = logits.size() / targets.size();
  for (size_t t = 0; t < targets.size(); ++t) {
    const auto row = row_of(logits, t, vocabulary);
    const Real weight = Real(weights[t]) / Real(settings.weight_total);
    const Real largest = *std::ranges::max_element(row);
    loss.wrap += weight * Real(settings.wrap) * largest * largest / 2;
    loss.cross_entropy +=
        kernel::reference::cross_entropy<Real>(row, targets[t], weight, Real(settings.wrap));
  }
}

}  // namespace

template <class Real>
Rwkv7Result<Real> rwkv7(const TensorSource& source, const Rwkv7Shape& shape,
                        const SaneStrength& sane, std::span<const int32_t> tokens) {
  const ParameterLayout layout = deltasane::rwkv7::parameter_layout(shape);
  std::vector<Real> parameters(size_t(layout.elements()));
  for (const ParameterSlot& slot : layout.slots()) {
    const Tensor<float> stored = source.read(slot.name);
    std::ranges::copy(stored.span(), parameters.begin() + slot.offset);
  }
  Model<Real> m{shape, layout, {}, parameters, {}};
  if (sane.alpha != 0) m.sane = SaneSettings{sane.alpha, sane.chunk};
  const Sequence<Real> sequence(m, tokens);
  Rwkv7Result<Real> result{sequence.logits, {}};
  for (const TimeMix<Real>& layer : sequence.time_mix)
    result.memory.insert(result.memory.end(), layer.memory.begin(), layer.memory.end());
  return result;
}

template <class Real>
TrainingLoss<Real> training_loss(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                                 std::span<const Real> parameters, const TrainingBatch& batch,
                                 const LossSettings& settings, std::span<Real> gradient,
                                 Precision precision) {
  require(shape.sane == sane.has_value(), "a SANE model has SANE's settings");
  const ParameterLayout layout = deltasane::rwkv7::parameter_layout(shape);
  Model<Real> m{shape, layout, sane, parameters, gradient, precision};
  TrainingLoss<Real> sum;
  for (int64_t i = 0; i < batch.sequences; ++i) {
    const auto part = [&](const auto& all) {
      return std::span(all).subspan(size_t(i * batch.time), size_t(batch.time));
    };
    if (!batch.present.empty()) m.present = part(batch.present);
    Sequence<Real> sequence(m, part(batch.tokens));
    TrainingLoss<Real> one;
    add_loss(part(batch.targets), part(batch.weights), settings, sequence.logits, one);
    sum.cross_entropy += one.cross_entropy, sum.wrap += one.wrap;
    if (!gradient.empty()) sequence.backward(sequence.logits);
  }
  return sum;
}

template Rwkv7Result<float> rwkv7(const TensorSource&, const Rwkv7Shape&, const SaneStrength&,
                                  std::span<const int32_t>);
template Rwkv7Result<double> rwkv7(const TensorSource&, const Rwkv7Shape&, const SaneStrength&,
                                   std::span<const int32_t>);
template TrainingLoss<float> training_loss(const Rwkv7Shape&, const std::optional<SaneSettings>&,
                                           std::span<const float>, const TrainingBatch&,
                                           const LossSettings&, std::span<float>, Precision);
template TrainingLoss<double> training_loss(const Rwkv7Shape&, const std::optional<SaneSettings>&,
                                            std::span<const double>, const TrainingBatch&,
                                            const LossSettings&, std::span<double>, Precision);

}  // namespace deltasane::reference
