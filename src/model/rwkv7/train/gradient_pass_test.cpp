// The training step with the kernels against its definition, tensor by tensor.
#include "model/rwkv7/train/gradient_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/processor_time.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/train/fixture.h"
#include "model/rwkv7/train/pooled_gradients.h"
#include "support/errors.h"

namespace deltasane::rwkv7 {
namespace {

using test::random_batch;
using test::random_parameters;
using test::small_heads_shape;

struct TrainingCase {
  std::optional<SaneSettings> sane;
  int64_t layers, sequences, time;
  bool padding = false;
  Rwkv7Norms norms{};
};
const TrainingCase training_cases[] = {{std::nullopt, 3, 2, 21},
                                       {SaneSettings{1.0, 16}, 3, 2, 37},
                                       {SaneSettings{0.7, 16}, 1, 3, 16},
                                       {SaneSettings{1.0, 16}, 2, 1, 5},
                                       {std::nullopt, 2, 3, 20, true},
                                       {SaneSettings{0.4, 16}, 3, 2, 37, true},
                                       {std::nullopt, 2, 2, 21, false, {0.1f, 0.3f, {2.0f, 0}}}};

// (tokens, vocabulary)
Tensor<float> logits_of(const LanguageModel& model, std::span<const int32_t> tokens,
                        SequenceState& state, const kernel::Cpu& cpu) {
  Tensor<float> logits({int64_t(tokens.size()), model.vocabulary()});
  model.forward(
      {.tokens = tokens, .state = &state, .want = Want::all_logits, .logits = logits.view()}, cpu);
  return logits;
}

std::string too_far(const TrainingCase& one, double error = 0) {
  ThreadPool threads(2);
  Rwkv7Shape shape = small_heads_shape(one.sane.has_value(), one.layers);
  shape.norms = one.norms;
  TrainingBatch batch = random_batch(shape, one.sequences, one.time);
  if (one.padding) batch = test::padded(std::move(batch));
  return test::too_far_from_definition(
      shape, one.sane, batch, error,
      [&](const Parameters& model, const LossSettings& settings, std::vector<float>& found) {
        const auto pass = make_gradient_pass(shape, one.sane, {one.sequences, one.time});
        const double loss = pass->gradient(model.all(), batch, settings, found, {threads});
        EXPECT_EQ(pass->loss(model.all(), batch, settings, {threads}), loss);
        return loss;
      });
}

// What is announced before a run is what it takes.
TEST(GradientPass, AllocatesWhatItSaysBeforehand) {
  ThreadPool threads(1);
  for (const TrainingCase& one : training_cases)
    for (const Activations kept : {Activations::keep, Activations::recompute})
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        const Rwkv7Shape shape = small_heads_shape(one.sane.has_value(), one.layers);
        const Parameters model = random_parameters(shape, 1, one.sane);
        const PassSettings settings{one.sequences, one.time, kept, precision};
        const TrainingBatch batch = random_batch(shape, one.sequences, one.time);
        const auto pass = make_gradient_pass(shape, one.sane, settings);
        std::vector<float> gradient(model.all().size());
        pass->gradient(model.all(), batch, {1, 0}, gradient, {threads});
        EXPECT_EQ(pass->bytes(), gradient_pass_memory(shape, one.sane, settings).total())
            << one.time;
      }
}

TEST(GradientPass, LossAndGradientAreTheDefinition) {
  for (const TrainingCase& one : training_cases) EXPECT_EQ(too_far(one), "") << one.time;
}

TEST(GradientPass, AnErrorOfAMillionthIsTooFarFromTheDefinition) {
  EXPECT_NE(too_far(training_cases[1], 1e-6), "");
}

TEST(GradientPass, LogitsOfTrainingAreThoseOfInference) {
  ThreadPool threads(2);
  for (const bool sane : {false, true}) {
    const Rwkv7Shape shape = small_heads_shape(sane);
    std::optional<SaneSettings> settings;
    if (sane) settings = SaneSettings{1.0, 16};
    const Parameters model = random_parameters(shape, 6, settings);
    TrainingBatch batch = random_batch(shape, 1, 40);
    batch.weights.assign(40, 1.0f);
    const double loss = make_gradient_pass(shape, settings, {1, 40})
                            ->loss(model.all(), batch, {40.0, 0}, {threads});
    const Rwkv7 inference(as_checkpoint(model), {});
    SequenceState state = inference.fresh_state();
    const Tensor<float> logits = logits_of(inference, batch.tokens, state, {threads});
    double sum = 0;
    for (int64_t t = 0; t < 40; ++t) {
      double terms = 0;
      for (int64_t j = 0; j < shape.vocabulary; ++j) terms += std::exp(double(logits.view()(t, j)));
      sum += std::log(terms) - double(logits.view()(t, batch.targets[size_t(t)]));
    }
    EXPECT_NEAR(loss, sum / 40, 1e-5);
  }
}

std::vector<float> gradient_of(const Rwkv7Shape& shape, const Parameters& model,
                               const TrainingBatch& batch, Activations kept, int threads,
                               Precision precision) {
  ThreadPool pool(threads);
  std::vector<float> gradient(model.all().size());
  make_gradient_pass(shape, model.sane(), {batch.sequences, batch.time, kept, precision})
      ->gradient(model.all(), batch, {batch.weight_total(), 1e-4}, gradient, {pool});
  return gradient;
}

TEST(GradientPass, RecomputingAndThreadsDoNotShow) {
  const SaneSettings sane{1.0, 16};
  const Rwkv7Shape shape = small_heads_shape(true);
  const Parameters model = random_parameters(shape, 7, sane);
  const TrainingBatch batch = random_batch(shape, 3, 33);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto kept = gradient_of(shape, model, batch, Activations::keep, 2, precision);
    EXPECT_EQ(kept, gradient_of(shape, model, batch, Activations::recompute, 2, precision));
    EXPECT_EQ(kept, gradient_of(shape, model, batch, Activations::keep, 1, precision));
    EXPECT_EQ(kept, gradient_of(shape, model, batch, Activations::keep, 3, precision));
  }
}

// A bucket that is reported has its last value; the others are still to come.
TEST(GradientPass, BucketsAreCompleteWhenTheyAreReported) {
  ThreadPool threads(2);
  for (const Activations kept : {Activations::keep, Activations::recompute}) {
    const Rwkv7Shape shape = small_heads_shape(true);
    const Parameters model = random_parameters(shape, 11, SaneSettings{1.0, 16});
    const TrainingBatch batch = random_batch(shape, 2, 18);
    std::vector<float> gradient(model.all().size()), reported(gradient.size());
    std::vector<int> times(gradient.size());
    std::vector<size_t> begins;
    make_gradient_pass(shape, model.sane(), {2, 18, kept})
        ->gradient(model.all(), batch, {batch.weight_total(), 0}, gradient, {threads},
                   [&](std::span<float> bucket) {
                     begins.push_back(size_t(bucket.data() - gradient.data()));
                     for (size_t i = 0; i < bucket.size(); ++i) {
                       reported[begins.back() + i] = bucket[i];
                       ++times[begins.back() + i];
                     }
                   });
    EXPECT_EQ(reported, gradient);
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    EXPECT_EQ(begins.size(), size_t(shape.layers) + 1);  // one sum each, and one for the head
    EXPECT_TRUE(std::ranges::is_sorted(begins, std::greater()));
  }
}

TEST(GradientPass, GradientsOfHalvesAddUpToThatOfTheWhole) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(false);
  const Parameters model = random_parameters(shape, 8, std::nullopt);
  const TrainingBatch whole = random_batch(shape, 2, 19);
  const LossSettings settings{whole.weight_total(), 0};
  std::vector<float> together(model.all().size()), apart(together);
  const auto two = make_gradient_pass(shape, {}, {2, 19}),
             one = make_gradient_pass(shape, {}, {1, 19});
  const double loss = two->gradient(model.all(), whole, settings, together, {threads});
  double sum = 0;
  for (const size_t half : {0, 1}) {
    TrainingBatch part{1, 19, {}, {}, {}};
    for (size_t i = half * 19; i < (half + 1) * 19; ++i) {
      part.tokens.push_back(whole.tokens[i]), part.targets.push_back(whole.targets[i]);
      part.weights.push_back(whole.weights[i]);
    }
    sum += one->gradient(model.all(), part, settings, apart, {threads});
  }
  EXPECT_NEAR(loss, sum, 1e-6);
  double largest = 0, error = 0;
  for (size_t i = 0; i < apart.size(); ++i) {
    largest = std::max(largest, double(std::abs(together[i])));
    error = std::max(error, double(std::abs(together[i] - apart[i])));
  }
  EXPECT_LT(error, 1e-5 * largest);  // the order of two sums
}

TEST(GradientPass, RefusesTokensPastTheVocabulary) {
  ThreadPool threads(1);
  const Parameters model = random_parameters(small_heads_shape(false), 9, std::nullopt);
  TrainingBatch batch = random_batch(small_heads_shape(false), 1, 4);
  batch.tokens[2] = 61;
  const auto pass = make_gradient_pass(small_heads_shape(false), {}, {1, 4});
  EXPECT_FAULT(pass->loss(model.all(), batch, {1, 0}, {threads}), Fault::argument,
               "token: expected 0 to 60, found 61");
}

TEST(RecurrenceTime, IsAPartOfAStep) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(true);
  const Parameters model = random_parameters(shape, 11, SaneSettings{1.0, 16});
  const TrainingBatch batch = random_batch(shape, 2, 48);
  std::vector<float> gradient(model.all().size());
  const auto pass = make_gradient_pass(shape, model.sane(), {2, 48});
  EXPECT_EQ(pass->recurrence_seconds(), 0);
  for (int turn = 0; turn < 2; ++turn) {  // each call counts anew
    const double began = processor_seconds_now();
    pass->gradient(model.all(), batch, {batch.weight_total(), 0}, gradient, {threads});
    EXPECT_GT(pass->recurrence_seconds(), 0);
    EXPECT_LT(pass->recurrence_seconds(), processor_seconds_now() - began);
  }
}

// A graft is a fixed threshold: bit for bit what SANE put on at run time gives.
TEST(Graft, LogitsAreThoseOfRunTimeSane) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = small_heads_shape(false);
  const Parameters plain = random_parameters(shape, 10, std::nullopt);
  for (const double alpha : {0.3, 1.0, 3.0}) {
    Rwkv7Shape with_sane = shape;
    const Parameters model = grafted(plain, with_sane, {alpha, 16});
    EXPECT_TRUE(with_sane.sane);
    const Rwkv7 trained(as_checkpoint(model), {});
    OpenOptions options;
    options.sane.alpha = alpha;
    const Rwkv7 run_time(as_checkpoint(plain), options);
    EXPECT_EQ(trained.sane().kind, SaneKind::trained);
    const TrainingBatch batch = random_batch(shape, 1, 75);
    SequenceState sa = trained.fresh_state(), sb = run_time.fresh_state();
    const Tensor<float> a = logits_of(trained, batch.tokens, sa, {threads});
    const Tensor<float> b = logits_of(run_time, batch.tokens, sb, {threads});
    EXPECT_TRUE(std::ranges::equal(a.span(), b.span())) << alpha;
    EXPECT_TRUE(std::ranges::equal(sa.fixed(), sb.fixed())) << alpha;
  }
  Rwkv7Shape twice = shape, once = shape;
  const Parameters model = grafted(plain, twice, {3, 16});
  EXPECT_FAULT(grafted(model, twice, {3, 16}), Fault::argument, "expected a model without SANE");
  EXPECT_FAULT(grafted(plain, once, {0, 16}), Fault::usage, "alpha: expected a number above 0");
}

}  // namespace
}  // namespace deltasane::rwkv7
