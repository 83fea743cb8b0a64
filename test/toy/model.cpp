#include "toy/model.h"

#include <algorithm>
#include <cmath>

#include "model/log_probability.h"
#include "toy/trainable.h"

namespace deltasane::toy {

Toy::Toy(std::unique_ptr<Checkpoint> checkpoint, const OpenOptions& options)
    : LanguageModel(checkpoint->describe(), checkpoint->state_layout(),
                    chosen_sane(checkpoint->sane(), options.sane, checkpoint->where()),
                    options.device),
      checkpoint_(std::move(checkpoint)) {
  if (options.device.gpu || options.weights.value_or(kernel::WeightType::f32) != kernel::WeightType::f32)
    fail(Fault::usage, checkpoint_->where(), ": expected f32 on a CPU for this architecture");
  const auto load = [&](const std::string& name) {
    Tensor<float> found = checkpoint_->read(name);
    weight_bytes_ += uint64_t(found.elements()) * sizeof(float);
    return found;
  };
  embedding_ = load("embedding.weight"), head_ = load("head.weight");
  for (int64_t n = 0; n < int64_t(checkpoint_->sizes().layers.size()); ++n) {
    Layer layer;
    if (checkpoint_->sizes().layers[size_t(n)].taps)
      layer.convolution = load(layer_tensor(n, "convolution"));
    for (const StatePart& part : state_layout()->parts()) {
      if (part.layer != n) continue;
      if (part.kind == StateKind::convolution) layer.inputs = &part;
      if (part.kind == StateKind::cache) layer.cache = &part;
      if (part.kind != StateKind::memory) continue;
      const auto own = [&, m = layer.memories.size()](const char* name) {
        return load(memory_tensor(n, m, name));
      };
      layer.memories.push_back({&part, own("decay"), own("query"), own("key"), own("value"),
                                own("out"), checkpoint_->sane() ? own("tau") : Tensor<float>()});
    }
    if (layer.cache) {
      layer.cache_query = load(layer_tensor(n, "cache.query"));
      layer.cache_key = load(layer_tensor(n, "cache.key"));
      layer.cache_value = load(layer_tensor(n, "cache.value"));
      layer.cache_out = load(layer_tensor(n, "cache.out"));
    }
    layers_.push_back(std::move(layer));
  }
}

Vector Toy::convolve(const Layer& layer, const Vector& x, SequenceState& state) const {
  if (layer.convolution.elements() == 0) return x;
  Vector all;  // (tap, channel), oldest first
  if (layer.inputs)
    for (const float value : state.of(*layer.inputs)) all.push_back(double(value));
  all.insert(all.end(), x.begin(), x.end());
  Vector u(x.size());
  for (size_t i = 0; i < all.size(); ++i)
    u[i % x.size()] += double(layer.convolution[int64_t(i)]) * all[i];
  if (layer.inputs)
    std::transform(all.begin() + int64_t(x.size()), all.end(),
                   state.mutable_of(*layer.inputs).begin(), [](double v) { return float(v); });
  return u;
}

Vector Toy::recall(const Memory& memory, const Vector& u, SequenceState& state) const {
  const Shape& shape = memory.part->shape;
  const auto heads = size_t(shape[0]), values = size_t(shape[1]), keys = size_t(shape[2]);
  const Vector q = product(memory.query.span(), u), k = product(memory.key.span(), u);
  const Vector v = product(memory.value.span(), u);
  const std::span<float> s = state.mutable_of(*memory.part);
  Vector out;
  for (size_t h = 0; h < heads; ++h) {
    Vector y(values);
    for (size_t i = 0; i < values; ++i)
      for (size_t j = 0; j < keys; ++j) {
        float& entry = s[(h * values + i) * keys + j];
        entry = float(double(memory.decay[int64_t(h)]) * double(entry) +
                      v[h * values + i] * k[h * keys + j]);
        y[i] += double(entry) * q[h * keys + j];
      }
    const Vector scaled = normalized(std::move(y));
    out.insert(out.end(), scaled.begin(), scaled.end());
  }
  return product(memory.out.span(), out);
}

Vector Toy::attend(const Layer& layer, const Vector& u, SequenceState& state) const {
  const Vector q = product(layer.cache_query.span(), u);
  std::vector<float>& rows = state.mutable_cache(layer.cache->offset);
  for (const Tensor<float>* const matrix : {&layer.cache_key, &layer.cache_value})
    for (const double value : product(matrix->span(), u)) rows.push_back(float(value));
  const size_t width = q.size(), count = rows.size() / (2 * width);
  Vector weights(count), read(width);
  for (size_t s = 0; s < count; ++s) {
    for (size_t i = 0; i < width; ++i) weights[s] += q[i] * double(rows[2 * s * width + i]);
    weights[s] /= std::sqrt(double(width));
  }
  const double largest = *std::ranges::max_element(weights);
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (size_t s = 0; s < count; ++s)
    for (size_t i = 0; i < width; ++i)
      read[i] += weights[s] / sum * double(rows[(2 * s + 1) * width + i]);
  return product(layer.cache_out.span(), read);
}

void Toy::neutralize(int64_t layer, const Vector& u, SequenceState& state, TauRecord* taus) const {
  std::vector<float> used;
  const int64_t first = state_layout()->heads_of(layer).first;
  for (const Memory& memory : layers_[size_t(layer)].memories) {
    const std::span<float> s = state.mutable_of(*memory.part);
    const auto heads = size_t(memory.part->shape[0]), entries = s.size() / heads;
    Vector x(heads);
    if (sane().kind == SaneKind::trained) x = product(memory.tau.span(), u);
    for (size_t h = 0; h < heads; ++h) {
      const double alpha = state.alphas.empty()
                               ? sane().alpha
                               : double(state.alphas[size_t(first) + used.size()]);
      const double tau = alpha * softplus(x[h]) + 1;
      for (float& entry : s.subspan(h * entries, entries))
        entry = float(tau * std::tanh(double(entry) / tau));
      used.push_back(float(tau));
    }
  }
  if (taus && !used.empty()) taus->add(layer, used);
}

Vector Toy::step(int32_t token, SequenceState& state, TauRecord* taus) const {
  const auto channels = size_t(description().channels);
  Vector x(channels);
  for (size_t i = 0; i < channels; ++i)
    x[i] = double(embedding_[int64_t(size_t(token) * channels + i)]);
  ++state.position;
  const bool ends_chunk = sane().kind != SaneKind::none && state.position % sane().chunk == 0;
  for (size_t n = 0; n < layers_.size(); ++n) {
    const Layer& layer = layers_[n];
    const Vector u = convolve(layer, x, state);
    for (const Memory& memory : layer.memories) add(x, recall(memory, u, state));
    if (layer.cache) add(x, attend(layer, u, state));
    if (ends_chunk) neutralize(int64_t(n), u, state, taus);
  }
  return normalized(std::move(x));
}

void Toy::write_logits(const Vector& x, std::span<float> logits) const {
  const Vector all = product(head_.span(), x);
  std::ranges::transform(all, logits.begin(), [](double v) { return float(v); });
}

void Toy::run_sequence(const SequenceInput& one) const {
  std::vector<float> held(static_cast<size_t>(vocabulary()));
  for (size_t t = 0; t < one.tokens.size(); ++t) {
    const Vector x = step(one.tokens[t], *one.state, one.taus);
    if (one.adaptive) one.adaptive->follow(*one.state, sane().alpha);
    const bool is_last = t + 1 == one.tokens.size();
    const bool wants_each = one.want == Want::all_logits || one.want == Want::losses ||
                            one.want == Want::top_log_probabilities;
    if (one.want == Want::nothing || (!wants_each && !is_last)) continue;
    write_logits(x, held);
    if (one.logits)
      std::ranges::copy(held, one.logits.at(one.want == Want::all_logits ? int64_t(t) : 0));
    if (one.want == Want::losses) one.losses[t] = -log_probability(held, one.targets[t]);
    if (one.want == Want::top_log_probabilities)
      take_top(held, one.top.subspan(t * size_t(one.top_count), size_t(one.top_count)));
    if (one.want == Want::sample) *one.sampled = one.sampler->sample(held, one.state->position);
  }
}

void Toy::run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const {
  cpu.threads.parallel(int64_t(batch.size()),
                       [&](int64_t i) { run_sequence(batch[size_t(i)]); });
}

Architecture architecture() {
  return {.name = "toy",
          .title = "Toy",
          .recognizes =
              [](const TensorFile& file) {
                const auto stated = file.metadata().find("architecture");
                return stated != file.metadata().end() && stated->second == "toy";
              },
          .open_checkpoint = [](TensorFile file) -> std::unique_ptr<ModelCheckpoint> {
            return std::make_unique<Checkpoint>(std::move(file));
          },
          .open = [](std::unique_ptr<ModelCheckpoint> checkpoint, const OpenOptions& options)
              -> std::unique_ptr<LanguageModel> {
            auto* const own = dynamic_cast<Checkpoint*>(checkpoint.release());
            require(own != nullptr, "an architecture opens its own checkpoints");
            return std::make_unique<Toy>(std::unique_ptr<Checkpoint>(own), options);
          },
          .read_tuned_state = nullptr,
          .training = &trainable,
          .write_random = nullptr};
}

}  // namespace deltasane::toy
