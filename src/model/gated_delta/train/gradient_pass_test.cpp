// Losses and gradients of small random models of every kind against the definition, and laws that hold
// for each.
#include "model/gated_delta/train/gradient_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/gated_delta/train/fixture.h"
#include "model/gated_delta/trainable.h"
#include "model/log_probability.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

const SaneSettings sane{0.1, 5};

class FamilyTraining : public testing::TestWithParam<size_t> {
 protected:
  Config config = SmallModel::with_sane(small_configs()[GetParam()], true);
};

// Over a few models: what is too far from the definition.
std::string too_far(const Config& config, const std::optional<SaneSettings>& of_sane,
                    const TrainingBatch& batch, double error = 0) {
  ThreadPool threads(1);
  return too_far_from_definition(
      config, of_sane, batch, error,
      [&](const Parameters& model, const LossSettings& settings, std::vector<float>& found) {
        const auto pass = make_gradient_pass(config, of_sane, {batch.sequences, batch.time});
        const double loss = pass->gradient(model.all(), batch, settings, found, {threads});
        EXPECT_EQ(pass->loss(model.all(), batch, settings, {threads}), loss);
        return loss;
      });
}

TEST_P(FamilyTraining, LossAndGradientAreTheDefinition) {
  EXPECT_EQ(too_far(config, sane, random_batch(config, 2, 11)), "");
}

TEST_P(FamilyTraining, WithPaddingTheyAreTheDefinition) {
  EXPECT_EQ(too_far(config, sane, padded(random_batch(config, 2, 11))), "");
}

TEST(FamilyTrainingOf, AModelWithoutSaneIsTheDefinition) {
  const Config config = small_configs()[1];
  EXPECT_EQ(too_far(config, {}, random_batch(config, 1, 12)), "");
}

TEST(FamilyTrainingOf, AModelThatIsOffByAHundredThousandthIsNotTheDefinition) {
  const Config config = small_configs()[1];
  EXPECT_NE(too_far(config, {}, random_batch(config, 1, 12), 1e-5), "");
}

// Some elements of every tensor, by central differences, extrapolated. The bound is that of
// docs/numerics.md.
TEST_P(FamilyTraining, GradientOfTheDefinitionIsThatOfTheLoss) {
  const TrainingBatch batch = padded(random_batch(config, 1, 12));
  const LossSettings settings{batch.weight_total(), 1e-2};
  const Parameters model = random_parameters(config, sane, 3);
  const auto defined = defined_gradient<double>(config, model, batch, settings);
  std::map<std::string, std::vector<double>> values;
  for (const ParameterSlot& slot : model.layout().slots())
    values[slot.name].assign(model.of(slot.name).begin(), model.of(slot.name).end());
  const auto computed = [&] {
    return defined_loss<double>(
        config, [&](const std::string& name) { return values.at(name); }, sane, batch, settings);
  };
  const auto objective = [&] { return computed().objective; };
  EXPECT_EQ(defined.loss, computed().loss);
  Random random(4);
  for (const ParameterSlot& slot : model.layout().slots()) {
    const size_t i = random.below(uint64_t(slot.elements()));
    double& x = values[slot.name][i];
    const double kept = x;
    const auto difference = [&](double h) {
      x = kept + h;
      const double up = objective();
      x = kept - h;
      const double down = objective();
      x = kept;
      return (up - down) / (2 * h);
    };
    const double whole = difference(1e-4), half = difference(5e-5);
    EXPECT_NEAR(defined.gradient[size_t(slot.offset) + i], half + (half - whole) / 3,
                std::abs(whole - half) / 8 + 8 * 2.3e-16 * 20 / 5e-5 + 1e-11)
        << slot.name << " " << i;
  }
}

std::vector<float> gradient_of(const Config& config, const Parameters& model,
                               const TrainingBatch& batch, Activations kept, int threads,
                               Precision precision) {
  ThreadPool pool(threads);
  std::vector<float> gradient(model.all().size());
  make_gradient_pass(config, model.sane(), {batch.sequences, batch.time, kept, precision})
      ->gradient(model.all(), batch, {batch.weight_total(), 1e-4}, gradient, {pool});
  return gradient;
}

TEST_P(FamilyTraining, RecomputingAndThreadsDoNotShow) {
  const Parameters model = random_parameters(config, sane, 7);
  const TrainingBatch batch = random_batch(config, 3, 21);
  const bool experts = std::ranges::count(config.experts, true) > 0;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (experts && precision == Precision::bf16) {
      EXPECT_FAULT(gradient_of(config, model, batch, Activations::keep, 1, precision),
                   Fault::usage, "expected fp32 for a model with experts, found bf16");
      continue;
    }
    const auto kept = gradient_of(config, model, batch, Activations::keep, 1, precision);
    EXPECT_EQ(kept, gradient_of(config, model, batch, Activations::recompute, 1, precision));
    if (precision == Precision::fp32) {
      EXPECT_EQ(kept, gradient_of(config, model, batch, Activations::keep, 3, precision));
    }
  }
}

// What is announced before a run is what it takes.
TEST_P(FamilyTraining, AllocatesWhatItSaysBeforehand) {
  ThreadPool threads(1);
  const Parameters model = random_parameters(config, sane, 1);
  const TrainingBatch batch = random_batch(config, 2, 18);
  for (const Activations kept : {Activations::keep, Activations::recompute}) {
    const PassSettings settings{2, 18, kept};
    const auto pass = make_gradient_pass(config, sane, settings);
    std::vector<float> gradient(model.all().size());
    pass->gradient(model.all(), batch, {1, 0}, gradient, {threads});
    EXPECT_EQ(pass->bytes(), gradient_pass_memory(config, sane, settings).total());
  }
}

// A bucket that is reported has its last value; the others are still to come.
TEST_P(FamilyTraining, BucketsAreCompleteWhenTheyAreReported) {
  ThreadPool threads(1);
  const Parameters model = random_parameters(config, sane, 11);
  const TrainingBatch batch = random_batch(config, 1, 18);
  std::vector<float> gradient(model.all().size()), reported(gradient.size());
  std::vector<int> times(gradient.size());
  make_gradient_pass(config, sane, {1, 18})
      ->gradient(model.all(), batch, {batch.weight_total(), 0}, gradient, {threads},
                 [&](std::span<float> bucket) {
                   const auto begin = size_t(bucket.data() - gradient.data());
                   for (size_t i = 0; i < bucket.size(); ++i) {
                     reported[begin + i] = bucket[i];
                     ++times[begin + i];
                   }
                 });
  EXPECT_EQ(reported, gradient);
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
}

TEST_P(FamilyTraining, SavedModelsAreTheSameAndTheirLossIsThatOfInference) {
  ThreadPool threads(1);
  const SmallModel small(small_configs()[GetParam()], sane);
  const auto model = trainable.open(small.path, std::nullopt);
  EXPECT_EQ(model->sane(), sane);
  const test::Scratch scratch;
  model->save(scratch.path() / "m.safetensors");
  const auto again = trainable.restore(scratch.path() / "m.safetensors");
  EXPECT_TRUE(again->same_model(*model));
  EXPECT_TRUE(std::ranges::equal(again->parameters().all(), model->parameters().all()));
  TrainingBatch batch = random_batch(config, 1, 40);
  batch.weights.assign(40, 1);
  const double loss =
      model->gradient_pass({1, 40})->loss(model->parameters().all(), batch, {40, 0}, {threads});
  const auto inference = model->open_for_inference();
  EXPECT_EQ(inference->sane(), (SaneUse{SaneKind::trained, 0.1, 5}));
  SequenceState state = inference->fresh_state();
  std::vector<double> losses(40);
  const double sum = score(*inference, batch.tokens, batch.targets, state, losses, {threads});
  EXPECT_NEAR(loss, sum / 40, 1e-5);
}

// A graft is a fixed threshold: bit for bit what SANE put on at run time gives.
TEST_P(FamilyTraining, GraftedModelsAreThoseWithSaneAtRunTime) {
  const SmallModel plain(small_configs()[GetParam()]);
  const fs::path to = plain.scratch.path() / "grafted.safetensors";
  const GraftReport report = trainable.graft({plain.path, to, {0.3, 16}, StoredType::f32});
  EXPECT_EQ(report.added, std::ranges::count(config.mixers, Mixer::recurrent) * config.channels *
                              config.value_heads);
  OpenOptions options{.weights = kernel::WeightType::f32};
  const auto grafted = open_model(to, options);
  options.sane.alpha = 0.3;
  const auto run_time = open_model(plain.path, options);
  EXPECT_EQ(grafted->sane().kind, SaneKind::trained);
  const std::vector<int32_t> tokens = random_tokens(50, config.vocabulary);
  const auto logits = [&](const LanguageModel& model) {
    SequenceState state = model.fresh_state();
    Tensor<float> all({50, model.vocabulary()});
    model.forward({tokens, &state, Want::all_logits, all.view()}, plain.cpu);
    return std::vector<float>(all.span().begin(), all.span().end());
  };
  EXPECT_EQ(logits(*grafted), logits(*run_time));
  EXPECT_FAULT(trainable.graft({to, plain.scratch.path() / "twice.safetensors", {0.3, 16}, {}}),
               Fault::argument, "expected a model without SANE");
}

INSTANTIATE_TEST_SUITE_P(Small, FamilyTraining, testing::Range(size_t(0), small_configs().size()));

}  // namespace
}  // namespace deltasane::gated_delta
