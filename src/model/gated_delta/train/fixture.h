// For tests: losses and gradients by the definition (reference.h), on batches with uneven weights.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "model/gated_delta/fixture.h"
#include "model/gated_delta/reference.h"
#include "model/gated_delta/train/layout.h"
#include "model/train/fixture_batch.h"
#include "tensor/pooled_closeness.h"
#include "tensor/tape.h"

namespace deltasane::gated_delta {

inline Parameters random_parameters(const Config& config, const std::optional<SaneSettings>& sane,
                                    uint64_t seed) {
  Parameters parameters(parameter_layout(config), sane);
  parameters.take(RandomTensors(config, seed));
  return parameters;
}

using test::padded;
inline TrainingBatch random_batch(const Config& config, int64_t sequences, int64_t time) {
  return test::random_batch(config.vocabulary, sequences, time);
}

// The loss, and what its gradient is of: with L2-wrap's term.
template <class Real>
struct DefinedLoss {
  Real loss = 0, objective = 0;
};
template <class Real>
DefinedLoss<Real> defined_loss(const Config& config, const reference::ReadTensor<Real>& read,
                               const std::optional<SaneSettings>& sane, const TrainingBatch& batch,
                               const LossSettings& settings) {
  using std::exp, std::log;
  SaneUse use;
  if (sane) use = {SaneKind::trained, sane->alpha, sane->chunk};
  const auto vocabulary = size_t(config.vocabulary), time = size_t(batch.time);
  DefinedLoss<Real> sum;
  for (size_t n = 0; n < size_t(batch.sequences); ++n) {
    const auto part = [&](const auto& all) {
      return all.empty() ? std::span(all) : std::span(all).subspan(n * time, time);
    };
    const std::vector<Real> logits =
        reference::forward<Real>(config, read, use, part(batch.tokens), part(batch.present)).logits;
    for (size_t t = 0; t < time; ++t) {
      const auto weight = Real(double(part(batch.weights)[t]) / settings.weight_total);
      const Real* const x = &logits[t * vocabulary];
      Real largest = x[0], terms = 0;
      for (size_t j = 1; j < vocabulary; ++j) largest = x[j] > largest ? x[j] : largest;
      for (size_t j = 0; j < vocabulary; ++j) terms += exp(x[j] - largest);
      const Real loss = weight * (log(terms) + largest - x[part(batch.targets)[t]]);
      sum.loss += loss;
      sum.objective += loss + weight * Real(settings.wrap / 2) * largest * largest;
    }
  }
  return sum;
}

template <class Real>
struct DefinedGradient {
  Real loss;
  std::vector<Real> gradient;  // in the layout
};
template <class Real>
DefinedGradient<Real> defined_gradient(const Config& config, const Parameters& parameters,
                                       const TrainingBatch& batch, const LossSettings& settings) {
  using Number = Recorded<Real>;
  Tape<Real> tape;
  std::map<std::string, std::vector<Number>> variables;
  for (const ParameterSlot& slot : parameters.layout().slots())
    for (const float value : parameters.of(slot.name))
      variables[slot.name].push_back(tape.variable(Real(value)));
  const auto defined = defined_loss<Number>(
      config, [&](const std::string& name) { return variables.at(name); }, parameters.sane(), batch,
      settings);
  const std::vector<Real> derivatives = tape.derivatives(defined.objective);
  DefinedGradient<Real> found{defined.loss.value, std::vector<Real>(parameters.all().size())};
  for (const ParameterSlot& slot : parameters.layout().slots())
    for (size_t i = 0; i < size_t(slot.elements()); ++i)
      found.gradient[size_t(slot.offset) + i] =
          derivatives[size_t(variables[slot.name][i].node)];
  return found;
}

// Over a few models: what is too far from the definition, tensor by tensor. gradient(model, settings,
// to) gives a loss and its gradient, of models whose weights of the recurrence's norm are off by
// `error`.
template <class Gradient>
std::string too_far_from_definition(const Config& config, const std::optional<SaneSettings>& sane,
                                    const TrainingBatch& batch, double error,
                                    Gradient&& gradient) {
  const LossSettings settings{batch.weight_total(), 1e-2};
  std::map<std::string, PooledCloseness> pools;
  PooledCloseness losses;
  for (const uint64_t seed : {5, 6, 7, 8}) {
    const Parameters model = random_parameters(config, sane, seed);
    Parameters off = model.clone();
    for (float& w : off.of("layers.0.mixer.output_norm.weight")) w = float(w * (1 + error));
    std::vector<float> found(model.all().size());
    const double loss = gradient(off, settings, found);
    const auto plain = defined_gradient<float>(config, model, batch, settings);
    const auto truth = defined_gradient<double>(config, model, batch, settings);
    const auto rounded = float(loss);
    losses.add({&rounded, 1}, {&plain.loss, 1}, {&truth.loss, 1});
    for (const ParameterSlot& slot : model.layout().slots()) {
      const auto part = [&](const auto& all) {
        return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
      };
      if (slot.name.ends_with("router_bias"))  // chooses, and has no gradient
        EXPECT_EQ(std::ranges::count(part(found), 0.0f), slot.elements());
      else
        pools[slot.name].add(part(found), part(plain.gradient), part(truth.gradient));
      double largest = 0;
      for (const double one : part(truth.gradient)) largest = std::max(largest, std::abs(one));
      EXPECT_TRUE(largest > 0 || slot.name.ends_with("router_bias")) << slot.name;
    }
  }
  std::string all;
  if (!losses.result().close) all = cat("losses: ", losses.result().explanation(), '\n');
  for (const auto& [name, pool] : pools)
    if (const Closeness one = pool.result(Criterion::rms_error); !one.close)
      all += cat(name, ": ", one.explanation(), '\n');
  return all;
}

}  // namespace deltasane::gated_delta
