// The toy's gradient is that of its loss, and its loss that of inference.
#include <gtest/gtest.h>

#include "base/random.h"
#include "model/log_probability.h"
#include "support/errors.h"
#include "toy/fixture.h"
#include "toy/trainable.h"
#include "toy/training_loss.h"

namespace deltasane::toy {
namespace {

struct Case {
  std::optional<SaneSettings> sane;
  bool padding;
};
const Case cases[] = {{{}, false}, {SaneSettings{0.1, 5}, false}, {SaneSettings{0.1, 5}, true}};

std::unique_ptr<TrainableModel> random_model(const std::optional<SaneSettings>& sane,
                                             ThreadPool& threads) {
  auto model = trainable.initialise({3, 6, 4, 17}, sane, {.seed = 3}, {threads});
  uint64_t stream = 100;
  for (const ParameterSlot& slot : model->layout().slots())
    if (slot.role == ParameterRole::sane)
      std::ranges::copy(random_tensor(slot.shape, 3, stream++).span(),
                        model->parameters().of(slot.name).begin());
  return model;
}

// Padding in front of the first sequence and inside of the second.
TrainingBatch random_batch(int64_t sequences, int64_t time, bool padding) {
  Random random(5);
  TrainingBatch batch{sequences, time, {}, {}, {}};
  for (int64_t i = 0; i < batch.rows(); ++i) {
    batch.tokens.push_back(int32_t(random.below(17)));
    batch.targets.push_back(int32_t(random.below(17)));
    batch.weights.push_back(float(random.below(4)) / 2);
    if (padding) batch.present.push_back(i / time == 0 ? i >= 2 : i % time != 7);
  }
  return batch;
}

Sizes sizes_of(const TrainableModel& model) {
  const test::Scratch scratch;
  model.save(scratch.path() / "m.safetensors");
  const auto checkpoint = open_checkpoint(scratch.path() / "m.safetensors");
  return dynamic_cast<const Checkpoint&>(*checkpoint).sizes();
}

// Every element of every tensor. The bound is that of docs/numerics.md.
TEST(ToyTraining, GradientIsThatOfTheLoss) {
  ThreadPool threads(1);
  for (const Case& c : cases) {
    const auto model = random_model(c.sane, threads);
    const Sizes sizes = sizes_of(*model);
    const TrainingModel form{sizes, model->layout(), c.sane};
    const TrainingBatch batch = random_batch(2, 12, c.padding);
    const LossSettings settings{batch.weight_total(), 0};
    const std::span<const float> values = model->parameters().all();
    std::vector<double> parameters(values.begin(), values.end()), gradient(parameters.size());
    const auto loss = [&](std::span<double> into = {}) {
      return training_loss(form, parameters, batch, 0, settings, into) +
             training_loss(form, parameters, batch, 1, settings, into);
    };
    loss(gradient);
    for (const ParameterSlot& slot : model->layout().slots()) {
      double largest = 0;
      for (int64_t i = 0; i < slot.elements(); ++i) {
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
        const double h = 1e-3, whole = difference(h), half = difference(h / 2);
        const double allowed = std::abs(whole - half) + 8 * 2.3e-16 * 10 * loss() / h + 1e-11;
        const double found = gradient[size_t(slot.offset + i)];
        EXPECT_NEAR(found, half + (half - whole) / 3, allowed) << slot.name << " " << i;
        largest = std::max(largest, std::abs(found));
      }
      EXPECT_GT(largest, 0) << slot.name;
    }
  }
}

TEST(ToyTraining, LossIsThatOfInference) {
  ThreadPool threads(1);
  const SaneSettings sane{0.1, 5};
  const auto model = random_model(sane, threads);
  TrainingBatch batch = random_batch(1, 40, false);
  batch.weights.assign(40, 1);
  const double loss =
      model->gradient_pass({1, 40})->loss(model->parameters().all(), batch, {40, 0}, {threads});
  const auto inference = model->open_for_inference();
  EXPECT_EQ(inference->sane(), (SaneUse{SaneKind::trained, 0.1, 5}));
  SequenceState state = inference->fresh_state();
  std::vector<double> losses(40);
  const double sum = score(*inference, batch.tokens, batch.targets, state, losses, {threads});
  EXPECT_NEAR(loss, sum / 40, 1e-5);  // inference rounds its states and logits to float
}

// Whole chunks of padding in front change nothing but the sum's order.
TEST(ToyTraining, PaddingInFrontIsNotThere) {
  ThreadPool threads(1);
  const auto model = random_model(SaneSettings{0.1, 5}, threads);
  const TrainingBatch plain = random_batch(1, 12, false);
  TrainingBatch behind{1, 22, plain.tokens, plain.targets, plain.weights, {}};
  behind.present.assign(12, 1);
  behind.tokens.insert(behind.tokens.begin(), 10, 5);
  behind.targets.insert(behind.targets.begin(), 10, 2);
  behind.weights.insert(behind.weights.begin(), 10, 0);
  behind.present.insert(behind.present.begin(), 10, 0);
  const auto gradient_of = [&](const TrainingBatch& batch) {
    std::vector<float> gradient(model->parameters().all().size());
    model->gradient_pass({1, batch.time})
        ->gradient(model->parameters().all(), batch, {9, 1e-4}, gradient, {threads});
    return gradient;
  };
  EXPECT_EQ(gradient_of(plain), gradient_of(behind));
  behind.present[7] = 1;
  EXPECT_NE(gradient_of(plain), gradient_of(behind));
}

TEST(ToyTraining, ThreadsDoNotShowAndEveryElementIsReportedOnce) {
  ThreadPool one(1), three(3);
  const auto model = random_model(SaneSettings{0.1, 5}, one);
  const TrainingBatch batch = random_batch(4, 11, true);
  const auto gradient_of = [&](ThreadPool& threads) {
    std::vector<float> gradient(model->parameters().all().size());
    std::vector<int> reported(gradient.size());
    model->gradient_pass({4, 11})->gradient(model->parameters().all(), batch, {9, 1e-4}, gradient,
                                            {threads}, [&](std::span<float> part) {
                                              for (const float& x : part)
                                                ++reported[size_t(&x - gradient.data())];
                                            });
    EXPECT_EQ(reported, std::vector<int>(gradient.size(), 1));
    return gradient;
  };
  EXPECT_EQ(gradient_of(one), gradient_of(three));
}

TEST(ToyTraining, WhatItHasNotIsRefused) {
  ThreadPool threads(1);
  const auto model = random_model({}, threads);
  EXPECT_FAULT(model->gradient_pass({1, 1, Activations::keep, Precision::bf16}), Fault::usage,
               "expected fp32");
  EXPECT_FAULT(model->expect_gpu_support(), Fault::usage, "expected cpu");
}

}  // namespace
}  // namespace deltasane::toy
