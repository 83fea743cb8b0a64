// Losses and gradients of several models of a kind, judged together tensor by tensor against the
// definition: over one model, the yardstick may be lucky. For tests.
#pragma once

#include <map>
#include <optional>

#include "base/cat.h"
#include "model/rwkv7/reference/reference.h"
#include "model/rwkv7/train/fixture.h"
#include "tensor/pooled_closeness.h"

namespace deltasane::test {

class PooledGradients {
 public:
  explicit PooledGradients(const Rwkv7Shape& shape) : shape_(shape) {}
  void add(const Parameters& model, const TrainingBatch& batch, const LossSettings& settings,
           double loss, std::span<const float> gradient) {
    std::vector<float> plain(gradient.size());
    std::vector<double> exact(model.all().begin(), model.all().end()), truth(plain.size());
    const auto plain_loss =
        reference::training_loss<float>(shape_, model.sane(), model.all(), batch, settings, plain);
    const auto true_loss =
        reference::training_loss<double>(shape_, model.sane(), exact, batch, settings, truth);
    const float found_loss = float(loss);
    losses_.add({&found_loss, 1}, {&plain_loss.cross_entropy, 1}, {&true_loss.cross_entropy, 1});
    for (const ParameterSlot& slot : model.layout().slots()) {
      const auto part = [&](const auto& all) {
        return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
      };
      gradients_[slot.name].add(part(gradient), part(plain), part(truth));
    }
  }
  // As operators, on average over the models: what is not close, or nothing.
  std::string too_far_on_average() const {
    std::string all;
    if (!losses_.result().close) all = cat("losses: ", losses_.result().explanation(), '\n');
    for (const auto& [name, gradient] : gradients_)
      if (const double share = gradient.mean_ratio(); !(share <= 1))
        all += cat(name, " is off by ", share, " times what is allowed\n");
    return all;
  }

 private:
  Rwkv7Shape shape_;
  PooledCloseness losses_;
  std::map<std::string, PooledCloseness> gradients_;
};

// A model's parameters with what the recurrence reads out off by `error`, up or down by channel:
// the weights that it is multiplied with are.
inline Parameters with_reading_off(const Rwkv7Shape& shape, const Parameters& model, double error) {
  Parameters off = model.clone();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::span<float> weight = off.of(cat("blocks.", layer, ".att.ln_x.weight"));
    for (size_t i = 0; i < weight.size(); ++i)
      weight[i] = float(weight[i] * (1 + (i % 2 ? error : -error)));
  }
  return off;
}

// What is too far from the definition over so many random models that luck evens out
// (docs/numerics.md). gradient(model, to) gives a loss and its gradient, of models that are off by
// `error`.
template <class Gradient>
std::string too_far_from_definition(const Rwkv7Shape& shape,
                                    const std::optional<SaneSettings>& sane,
                                    const TrainingBatch& batch, double error, Gradient&& gradient) {
  const LossSettings settings{batch.weight_total(), 1e-2};
  PooledGradients pool(shape);
  for (uint64_t seed = 5; seed < 5 + 16; ++seed) {
    const Parameters model = random_parameters(shape, seed, sane);
    std::vector<float> found(model.all().size());
    const double loss = gradient(with_reading_off(shape, model, error), settings, found);
    pool.add(model, batch, settings, loss, found);
  }
  return pool.too_far_on_average();
}

}  // namespace deltasane::test
