// The definition: its loss is that of its logits, its gradient that of central differences in
// double.
#include "model/rwkv7/reference/reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rwkv7/train/fixture.h"

namespace deltasane {
namespace {

using test::tiny_batch;
using test::tiny_shape;

struct Case {
  std::optional<SaneSettings> sane;
  const char* name;
  bool padding = false;
  Rwkv7Norms norms{};
};
const Case cases[] = {{std::nullopt, "baseline"},
                      {SaneSettings{1.5, 4}, "SANE, chunks of 4"},
                      {SaneSettings{0.5, 3}, "SANE, chunks of 3"},
                      {std::nullopt, "baseline with padding", true},
                      {SaneSettings{0.5, 4}, "SANE with padding", true},
                      {std::nullopt, "other norms", false, {0.1f, 0.3f, {2.0f, 0}}}};

Rwkv7Shape shape_of(const Case& c) {
  Rwkv7Shape shape = tiny_shape(c.sane.has_value());
  shape.norms = c.norms;
  return shape;
}

TEST(Definition, LossIsThatOfTheModel) {
  for (const Case& c : cases) {
    if (c.padding) continue;  // the model's definition has none
    const Rwkv7Shape shape = shape_of(c);
    const RandomRwkv7 source(shape, 3);
    const Parameters model = rwkv7::parameters_of(source, shape, c.sane);
    const TrainingBatch batch = tiny_batch(shape);
    const std::vector<double> parameters(model.all().begin(), model.all().end());
    const auto found = reference::training_loss<double>(shape, c.sane, parameters, batch,
                                                        {batch.weight_total(), 0}, {});
    double expected = 0;
    for (int64_t s = 0; s < batch.sequences; ++s) {
      const auto part = std::span(batch.tokens).subspan(size_t(s * batch.time), size_t(batch.time));
      reference::SaneStrength strength;
      if (c.sane) strength = {c.sane->alpha, c.sane->chunk};
      const auto result = reference::rwkv7<double>(source, shape, strength, part);
      for (int64_t t = 0; t < batch.time; ++t) {
        const size_t row = size_t(s * batch.time + t), v = size_t(shape.vocabulary);
        double sum = 0;
        for (size_t j = 0; j < v; ++j) sum += std::exp(result.logits[size_t(t) * v + j]);
        expected += batch.weights[row] *
                    (std::log(sum) - result.logits[size_t(t) * v + size_t(batch.targets[row])]);
      }
    }
    EXPECT_NEAR(found.cross_entropy, expected / batch.weight_total(), 1e-12) << c.name;
  }
}

// Loss and gradient of a batch in double, the loss first.
std::vector<double> all_of(const Rwkv7Shape& shape, const Parameters& model,
                           const TrainingBatch& batch, double weight_total) {
  const std::vector<double> parameters(model.all().begin(), model.all().end());
  std::vector<double> gradient(parameters.size(), 0.0);
  const auto loss = reference::training_loss<double>(shape, model.sane(), parameters, batch,
                                                     {weight_total, 0.03}, gradient);
  gradient.insert(gradient.begin(), loss.total());
  return gradient;
}

TEST(Definition, WholeChunksOfPaddingInFrontLeaveNoTrace) {
  for (const Case& c : cases) {
    const Rwkv7Shape shape = shape_of(c);
    const Parameters model = test::random_parameters(shape, 8, c.sane);
    const TrainingBatch plain = test::random_batch(shape, 1, 9);
    TrainingBatch behind{1, 21, plain.tokens, plain.targets, plain.weights,
                         {}};  // 12: of 3 and of 4
    behind.present.assign(9, 1);
    behind.tokens.insert(behind.tokens.begin(), 12, 5),
        behind.targets.insert(behind.targets.begin(), 12, 2);
    behind.weights.insert(behind.weights.begin(), 12, 0);
    behind.present.insert(behind.present.begin(), 12, 0);
    const double weight = plain.weight_total();
    EXPECT_EQ(all_of(shape, model, plain, weight), all_of(shape, model, behind, weight)) << c.name;
    behind.present[10] = 1;  // a token that is there does leave one
    EXPECT_NE(all_of(shape, model, plain, weight), all_of(shape, model, behind, weight)) << c.name;
  }
}

// Every tensor, and in large ones a sample of elements. The bound is that of docs/numerics.md.
TEST(Definition, GradientIsThatOfTheLoss) {
  for (const Case& c : cases) {
    const Rwkv7Shape shape = shape_of(c);
    const Parameters model = test::random_parameters(shape, 4, c.sane);
    const TrainingBatch batch = c.padding ? test::padded(tiny_batch(shape)) : tiny_batch(shape);
    const LossSettings settings{batch.weight_total(), 0.03};
    std::vector<double> parameters(model.all().begin(), model.all().end());
    std::vector<double> gradient(parameters.size(), 0.0);
    reference::training_loss<double>(shape, c.sane, parameters, batch, settings, gradient);
    const auto loss = [&] {
      return reference::training_loss<double>(shape, c.sane, parameters, batch, settings, {})
          .total();
    };
    for (const ParameterSlot& slot : model.layout().slots()) {
      double largest = 0;
      for (int64_t i = 0; i < slot.elements(); i += 1 + slot.elements() / 3) {
        double& x = parameters[size_t(slot.offset + i)];
        const double kept = x;
        const auto difference = [&](double h) {
          x = kept + h;
          const double up = loss();
          x = kept - h;
          const double down = loss();
          x = kept;
          return (up - down) / (2 * h);
        };
        const double h = 1e-3;
        const double whole = difference(h), half = difference(h / 2);
        const double terms = 10 * loss();
        const double allowed = std::abs(whole - half) + 8 * 2.3e-16 * terms / h + 1e-11;
        const double found = gradient[size_t(slot.offset + i)];
        EXPECT_NEAR(found, half + (half - whole) / 3, allowed)
            << c.name << " " << slot.name << " " << i;
        largest = std::max(largest, std::abs(found));
      }
      const bool seen =
          slot.role != ParameterRole::embedding;  // a token that was not drawn has no gradient
      EXPECT_TRUE(largest > 0 || !seen) << c.name << " " << slot.name;
    }
  }
}

}  // namespace
}  // namespace deltasane
