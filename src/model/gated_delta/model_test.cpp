// Small random models of every kind against the definition, and laws that hold for each.
#include "model/gated_delta/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/open.h"
#include "model/gated_delta/fixture.h"
#include "model/gated_delta/reference.h"
#include "support/errors.h"
#include "tensor/closeness.h"

namespace deltasane::gated_delta {
namespace {

class Family : public testing::TestWithParam<size_t> {
 protected:
  Config config = small_configs()[GetParam()];
};

void expect_close(const char* what, std::span<const float> found, std::span<const float> plain,
                  std::span<const double> truth) {
  const Closeness result = closeness(found, plain, truth, Criterion::rms_error);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

void expect_definition(const SmallModel& small, const std::vector<int32_t>& tokens) {
  const auto truth =
      reference::forward<double>(small.config, small.source, small.model->sane(), tokens);
  const auto plain =
      reference::forward<float>(small.config, small.source, small.model->sane(), tokens);
  SequenceState state = small.model->fresh_state();
  expect_close("logits", small.logits(tokens, state), plain.logits, truth.logits);
  size_t layer = 0;
  for (const StatePart& part : state.layout().parts())
    if (part.kind == StateKind::memory) {
      expect_close("memory", state.of(part), plain.memories[layer], truth.memories[layer]);
      ++layer;
    }
  EXPECT_EQ(state.position, int64_t(tokens.size()));
  EXPECT_EQ(layer, truth.memories.size());
}

TEST_P(Family, IsTheDefinition) {
  const SmallModel small(config);
  expect_definition(small, random_tokens(45, config.vocabulary));
}

TEST_P(Family, WithSaneAtRunTimeIsTheDefinition) {
  const SmallModel small(config, {}, {.alpha = 0.05});
  expect_definition(small, random_tokens(45, config.vocabulary));
}

TEST_P(Family, TrainedWithSaneIsTheDefinition) {
  const SmallModel small(config, SaneSettings{0.1, 5});
  EXPECT_EQ(small.model->sane().kind, SaneKind::trained);
  expect_definition(small, random_tokens(33, config.vocabulary));
}

// Products of few rows add in another order than those of many: within the same bound.
TEST_P(Family, CutsAnywhereGiveTheSame) {
  const SmallModel small(config, SaneSettings{0.1, 16});
  const std::vector<int32_t> tokens = random_tokens(70, config.vocabulary);
  const auto truth =
      reference::forward<double>(small.config, small.source, small.model->sane(), tokens);
  const auto plain =
      reference::forward<float>(small.config, small.source, small.model->sane(), tokens);
  for (const std::vector<int64_t>& calls :
       {std::vector<int64_t>{16}, {48}, {1, 2, 3, 30, 1}, std::vector<int64_t>(70, 1)}) {
    SequenceState state = small.model->fresh_state();
    expect_close("logits", small.logits(tokens, state, calls), plain.logits, truth.logits);
  }
}

// Sequences of a batch do not see each other.
TEST_P(Family, SequencesOfABatchAreAlone) {
  const SmallModel small(config, {}, {.alpha = 0.05});
  const LanguageModel& model = *small.model;
  std::vector<SequenceState> states, alone;
  std::vector<std::vector<int32_t>> tokens;
  for (const int64_t count : {1, 20, 17, 1, 1}) {
    states.push_back(model.fresh_state()), alone.push_back(model.fresh_state());
    tokens.push_back(random_tokens(count + 1, config.vocabulary, uint64_t(count) + tokens.size()));
  }
  // All but the last token of each, then the last of all as single tokens.
  for (size_t i = 0; i < tokens.size(); ++i)
    for (SequenceState* const state : {&states[i], &alone[i]})
      model.forward({.tokens = std::span(tokens[i]).first(tokens[i].size() - 1), .state = state},
                    small.cpu);
  Tensor<float> logits({int64_t(tokens.size()), model.vocabulary()}), own({1, model.vocabulary()});
  std::vector<SequenceInput> batch;
  for (size_t i = 0; i < tokens.size(); ++i)
    batch.push_back({std::span(tokens[i]).last(1), &states[i], Want::last_logits,
                     logits.view().slice(0, int64_t(i), 1)});
  model.forward(batch, small.cpu);
  for (size_t i = 0; i < tokens.size(); ++i) {
    model.forward({std::span(tokens[i]).last(1), &alone[i], Want::last_logits, own.view()},
                  small.cpu);
    for (int64_t v = 0; v < model.vocabulary(); ++v)
      EXPECT_NEAR(logits[int64_t(i) * model.vocabulary() + v], own[v], 2e-5) << i;
    EXPECT_EQ(states[i].position, alone[i].position);
    for (int64_t n = 0; n < states[i].layout().caches(); ++n)
      EXPECT_EQ(states[i].cache(n).size(), alone[i].cache(n).size());
  }
}

TEST_P(Family, LossesAreThoseOfTheLogits) {
  const SmallModel small(config);
  const std::vector<int32_t> tokens = random_tokens(20, config.vocabulary);
  SequenceState one = small.model->fresh_state(), other = small.model->fresh_state();
  const std::vector<float> logits = small.logits(std::span(tokens).first(19), one);
  std::vector<double> losses(19);
  score(*small.model, std::span(tokens).first(19), std::span(tokens).subspan(1), other, losses,
        small.cpu);
  for (size_t t = 0; t < 19; ++t)
    EXPECT_DOUBLE_EQ(losses[t],
                     -log_probability(std::span(logits).subspan(
                                          t * size_t(config.vocabulary), size_t(config.vocabulary)),
                                      tokens[t + 1]));
}

TEST_P(Family, WeightsOfOtherTypesAreNear) {
  const SmallModel small(config);
  const std::vector<int32_t> tokens = random_tokens(20, config.vocabulary);
  SequenceState state = small.model->fresh_state();
  const std::vector<float> expected = small.logits(tokens, state);
  double size = 0;
  for (const float x : expected) size += double(x) * double(x) / double(expected.size());
  for (const auto& [type, allowed] : {std::pair{kernel::WeightType::f16, 0.02},
                                      {kernel::WeightType::bf16, 0.15},
                                      {kernel::WeightType::q8, 0.3}}) {
    const auto model = open_model(small.path, {.weights = type});
    Tensor<float> logits({20, config.vocabulary});
    SequenceState own = model->fresh_state();
    model->forward({tokens, &own, Want::all_logits, logits.view()}, small.cpu);
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      error += std::pow(double(logits[int64_t(i)] - expected[i]), 2) / double(expected.size());
    EXPECT_LT(std::sqrt(error / size), allowed) << kernel::name_of(type);
    EXPECT_GT(error, 0) << kernel::name_of(type);
    EXPECT_EQ(model->weight_type(), kernel::name_of(type));
  }
}

TEST_P(Family, ConvertedModelIsTheSame) {
  const SmallModel small(config, SaneSettings{0.5, 8});
  const auto checkpoint = open_checkpoint(small.path);
  const fs::path copy = small.scratch.path() / "copy.safetensors";
  checkpoint->write_safetensors(copy, StoredType::f32, checkpoint->metadata());
  const auto again = open_checkpoint(copy);
  EXPECT_EQ(checkpoint->identity(), again->identity());
  EXPECT_EQ(again->sane(), (SaneSettings{0.5, 8}));
  EXPECT_EQ(checkpoint->names(), again->names());
  EXPECT_FAULT(checkpoint->write_gguf(copy, {StoredType::f32}), Fault::usage,
               "expected .safetensors");
}

// Caches of constant size give what the definition gives with a window.
TEST_P(Family, WindowOfAttentionIsTheDefinition) {
  SmallModel small(config);
  if (small.model->state_layout()->caches() == 0) {
    EXPECT_FAULT(open_model(small.path, {.attention_window = 40}), Fault::usage,
                 "expected a model with attention");
    return;
  }
  const int64_t window = config.window ? config.window - 2 : 9;
  small.model =
      open_model(small.path, {.weights = kernel::WeightType::f32, .attention_window = window});
  small.config.window = window, small.config.kept = 4;
  const std::vector<int32_t> tokens = random_tokens(150, config.vocabulary);
  const auto truth = reference::forward<double>(small.config, small.source, {}, tokens);
  const auto plain = reference::forward<float>(small.config, small.source, {}, tokens);
  std::vector<std::vector<float>> caches;
  for (const std::vector<int64_t>& calls :
       {std::vector<int64_t>{}, {70}, {1, 40, 3, 60}, std::vector<int64_t>(150, 1)}) {
    SequenceState state = small.model->fresh_state();
    expect_close("logits", small.logits(tokens, state, calls), plain.logits, truth.logits);
    const int64_t row = state.layout().cache(0).floats();
    EXPECT_LE(int64_t(state.cache(0).size()) / row, 32 + 9 + 32);
    caches.emplace_back(state.cache(0).begin(), state.cache(0).end());
    EXPECT_EQ(caches.back().size(), caches.front().size());
    SequenceState other = state.clone();
    const auto whole = open_model(small.path, {});
    EXPECT_FAULT(whole->forward({.tokens = std::span(tokens).first(1), .state = &other}, small.cpu),
                 Fault::argument, "made with another attention window");
  }
  EXPECT_FAULT(open_model(small.path, {.attention_window = 0}), Fault::usage,
               "attention window: expected at least 1 token, found 0");
}

TEST(FamilyWindow, OfTheModelIsKeptWhereAWiderOneIsAskedFor) {
  Config config = small_config(kernel::Rule::gated_deltanet);
  config.window = 7;
  for (const int64_t wider : {7, 8, 500}) {
    EXPECT_EQ(with_window(config, wider).window, 7);
    EXPECT_EQ(with_window(config, wider).kept, 0);
  }
  EXPECT_EQ(with_window(config, 6).window, 6);
  EXPECT_EQ(with_window(config, 6).kept, 4);
}

INSTANTIATE_TEST_SUITE_P(Configs, Family, testing::Range<size_t>(0, small_configs().size()));

TEST(FamilyFiles, AMissingOrMisshapenTensorIsNamed) {
  test::Scratch scratch;
  const fs::path path = scratch.path() / "a.safetensors";
  Config config = small_config(kernel::Rule::gated_deltanet);
  const RandomTensors source(config, 1);
  write(path, config, source, StoredType::f32, {});
  const auto with = [&](auto change) {
    TensorFile file = open_tensor_file(path), changed("safetensors", "changed");
    changed.merge(file);
    change(changed.metadata());
    return changed;
  };
  EXPECT_FAULT(Checkpoint(with([](Metadata& m) { m["gated_delta.feed_forward"] = "33"; })),
               Fault::file, "layers.0.ffn.gate.weight: expected 33 rows of 24, found shape (32, 24)");
  EXPECT_FAULT(Checkpoint(with([](Metadata& m) { m["gated_delta.gate"] = "1"; })), Fault::file,
               "expected the tensor layers.0.mixer.gate.weight, found none");
  EXPECT_FAULT(Checkpoint(with([](Metadata& m) { m["gated_delta.rule"] = "1"; })), Fault::file,
               "expected none of this name");
  EXPECT_FAULT(Checkpoint(with([](Metadata& m) { m["gated_delta.rule"] = "9"; })), Fault::file,
               "gated_delta.rule: expected a setting of its kind, found '9'");
  EXPECT_FAULT(Checkpoint(with([](Metadata& m) { m.erase("gated_delta.taps"); })), Fault::file,
               "expected the metadata gated_delta.taps");
}

}  // namespace
}  // namespace deltasane::gated_delta
