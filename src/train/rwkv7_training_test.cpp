// The training step with the kernels against its definition, tensor by tensor.
#include "train/rwkv7_training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rwkv7/random.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "train/pooled_gradients.h"
#include "train/training_fixture.h"

namespace deltasane::train {
namespace {

using test::random_batch;
using test::small_heads_shape;

struct TrainingCase {
  std::optional<SaneSettings> sane;
  int64_t layers, sequences, time;
  bool padding = false;
};
const TrainingCase training_cases[] = {
    {std::nullopt, 3, 2, 21},          {SaneSettings{1.0, 16}, 3, 2, 37},
    {SaneSettings{0.7, 16}, 1, 3, 16}, {SaneSettings{1.0, 16}, 2, 1, 5},
    {std::nullopt, 2, 3, 20, true},    {SaneSettings{0.4, 16}, 3, 2, 37, true}};

std::string too_far(const TrainingCase& one, double error = 0) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(one.sane.has_value(), one.layers);
  Batch batch = random_batch(shape, one.sequences, one.time);
  if (one.padding) batch = test::padded(std::move(batch));
  return test::too_far_from_definition(
      shape, one.sane, batch, error,
      [&](const Parameters& model, const LossSettings& settings, std::vector<float>& found) {
        Rwkv7Training training(model.layout(), one.sane, one.sequences, one.time,
                               Activations::keep);
        const double loss = training.gradient(model.all(), batch, settings, found, {threads});
        EXPECT_EQ(training.loss(model.all(), batch, settings, {threads}), loss);
        return loss;
      });
}

TEST(Rwkv7Training, LossAndGradientAreTheDefinition) {
  for (const TrainingCase& one : training_cases) EXPECT_EQ(too_far(one), "") << one.time;
}

TEST(Rwkv7Training, AnErrorOfAMillionthIsTooFarFromTheDefinition) {
  EXPECT_NE(too_far(training_cases[1], 1e-6), "");
}

TEST(Rwkv7Training, LogitsOfTrainingAreThoseOfInference) {
  ThreadPool threads(2);
  for (const bool sane : {false, true}) {
    const Rwkv7Shape shape = small_heads_shape(sane);
    std::optional<SaneSettings> settings;
    if (sane) settings = SaneSettings{1.0, 16};
    const Parameters model(RandomRwkv7(shape, 6), settings);
    Batch batch = random_batch(shape, 1, 40);
    batch.weights.assign(40, 1.0f);
    Rwkv7Training training(model.layout(), settings, 1, 40, Activations::keep);
    const double loss = training.loss(model.all(), batch, {40.0, 0}, {threads});
    const Rwkv7 inference(model.as_checkpoint(), {});
    RecurrentState state = inference.fresh_state();
    Tensor<float> logits({40, shape.vocabulary});
    inference.forward(batch.tokens, state, Rwkv7::Logits::all, logits.view(), {threads});
    double sum = 0;
    for (int64_t t = 0; t < 40; ++t) {
      double terms = 0;
      for (int64_t j = 0; j < shape.vocabulary; ++j) terms += std::exp(double(logits.view()(t, j)));
      sum += std::log(terms) - double(logits.view()(t, batch.targets[size_t(t)]));
    }
    EXPECT_NEAR(loss, sum / 40, 1e-5);
  }
}

std::vector<float> gradient_of(const Parameters& model, const Batch& batch, Activations kept,
                               int threads, Precision precision) {
  ThreadPool pool(threads);
  std::vector<float> gradient(model.all().size());
  Rwkv7Training training(model.layout(), model.sane(), batch.sequences, batch.time, kept,
                         precision);
  training.gradient(model.all(), batch, {batch.weight_total(), 1e-4}, gradient, {pool});
  return gradient;
}

TEST(Rwkv7Training, RecomputingAndThreadsDoNotShow) {
  const SaneSettings sane{1.0, 16};
  const Parameters model(RandomRwkv7(small_heads_shape(true), 7), sane);
  const Batch batch = random_batch(small_heads_shape(true), 3, 33);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto kept = gradient_of(model, batch, Activations::keep, 2, precision);
    EXPECT_EQ(kept, gradient_of(model, batch, Activations::recompute, 2, precision));
    EXPECT_EQ(kept, gradient_of(model, batch, Activations::keep, 1, precision));
    EXPECT_EQ(kept, gradient_of(model, batch, Activations::keep, 3, precision));
  }
}

// Told of a stretch, one may take it: it has its last value, and the others are still to come.
TEST(Rwkv7Training, StretchesAreFinishedWhenTheyAreTold) {
  ThreadPool threads(2);
  for (const Activations kept : {Activations::keep, Activations::recompute}) {
    const Rwkv7Shape shape = small_heads_shape(true);
    const Parameters model(RandomRwkv7(shape, 11), SaneSettings{1.0, 16});
    const Batch batch = random_batch(shape, 2, 18);
    std::vector<float> gradient(model.all().size()), told(gradient.size());
    std::vector<int> times(gradient.size());
    std::vector<size_t> begins;
    Rwkv7Training training(model.layout(), model.sane(), 2, 18, kept);
    training.gradient(model.all(), batch, {batch.weight_total(), 0}, gradient, {threads},
                      [&](std::span<float> stretch) {
                        begins.push_back(size_t(stretch.data() - gradient.data()));
                        for (size_t i = 0; i < stretch.size(); ++i) {
                          told[begins.back() + i] = stretch[i];
                          ++times[begins.back() + i];
                        }
                      });
    EXPECT_EQ(told, gradient);
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    EXPECT_EQ(begins.size(), size_t(shape.layers) + 1);  // one sum each, and one for the head
    EXPECT_TRUE(std::ranges::is_sorted(begins, std::greater()));
  }
}

TEST(Rwkv7Training, GradientsOfHalvesAddUpToThatOfTheWhole) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(false);
  const Parameters model(RandomRwkv7(shape, 8), std::nullopt);
  const Batch whole = random_batch(shape, 2, 19);
  const LossSettings settings{whole.weight_total(), 0};
  std::vector<float> together(model.all().size()), apart(together);
  Rwkv7Training two(model.layout(), {}, 2, 19, Activations::keep);
  Rwkv7Training one(model.layout(), {}, 1, 19, Activations::keep);
  const double loss = two.gradient(model.all(), whole, settings, together, {threads});
  double sum = 0;
  for (const size_t half : {0, 1}) {
    Batch part{1, 19, {}, {}, {}};
    for (size_t i = half * 19; i < (half + 1) * 19; ++i) {
      part.tokens.push_back(whole.tokens[i]), part.targets.push_back(whole.targets[i]);
      part.weights.push_back(whole.weights[i]);
    }
    sum += one.gradient(model.all(), part, settings, apart, {threads});
  }
  EXPECT_NEAR(loss, sum, 1e-6);
  double largest = 0, error = 0;
  for (size_t i = 0; i < apart.size(); ++i) {
    largest = std::max(largest, double(std::abs(together[i])));
    error = std::max(error, double(std::abs(together[i] - apart[i])));
  }
  EXPECT_LT(error, 1e-5 * largest);  // the order of two sums
}

TEST(Rwkv7Training, RefusesTokensPastTheVocabulary) {
  ThreadPool threads(1);
  const Parameters model(RandomRwkv7(small_heads_shape(false), 9), std::nullopt);
  Batch batch = random_batch(small_heads_shape(false), 1, 4);
  batch.tokens[2] = 61;
  Rwkv7Training training(model.layout(), {}, 1, 4, Activations::keep);
  EXPECT_FAULT(training.loss(model.all(), batch, {1, 0}, {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
}

// A graft is a fixed threshold: bit for bit what SANE put on at run time gives.
TEST(Graft, LogitsAreThoseOfRunTimeSane) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(false);
  const Parameters plain(RandomRwkv7(shape, 10), std::nullopt);
  for (const double alpha : {0.3, 1.0, 3.0}) {
    const Parameters model = grafted(plain, {alpha, 16});
    const Rwkv7 trained(model.as_checkpoint(), {});
    Rwkv7Options options;
    options.sane_alpha = alpha;
    const Rwkv7 run_time(plain.as_checkpoint(), options);
    EXPECT_EQ(trained.sane().kind, SaneKind::trained);
    const Batch batch = random_batch(shape, 1, 75);
    Tensor<float> a({75, shape.vocabulary}), b({75, shape.vocabulary});
    RecurrentState sa = trained.fresh_state(), sb = run_time.fresh_state();
    trained.forward(batch.tokens, sa, Rwkv7::Logits::all, a.view(), {threads});
    run_time.forward(batch.tokens, sb, Rwkv7::Logits::all, b.view(), {threads});
    EXPECT_TRUE(std::ranges::equal(a.span(), b.span())) << alpha;
    EXPECT_TRUE(std::ranges::equal(sa.memory().span(), sb.memory().span())) << alpha;
  }
  EXPECT_FAULT(grafted(grafted(plain, {3, 16}), {3, 16}), Fault::argument,
               "expected a model without SANE");
  EXPECT_FAULT(grafted(plain, {0, 16}), Fault::usage, "alpha: expected a number above 0");
}

}  // namespace
}  // namespace deltasane::train
