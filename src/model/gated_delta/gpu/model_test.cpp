// Small random models of every kind that a GPU takes, in float against the definition and in bf16
// near it; states between GPU and CPU.
#include "model/gated_delta/gpu/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/open.h"
#include "model/gated_delta/fixture.h"
#include "model/gated_delta/reference.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::gated_delta {
namespace {

bool is_dense(const Config& c) {
  return !c.has(Mixer::latent) && std::ranges::count(c.experts, true) == 0;
}

std::vector<Config> dense_configs() {
  std::vector<Config> all = small_configs();
  std::erase_if(all, [](const Config& c) { return !is_dense(c); });
  return all;
}

std::unique_ptr<LanguageModel> on_gpu(const fs::path& path, OpenOptions options) {
  options.device.gpu = 0;
  return open_on_gpu(Checkpoint(open_tensor_file(path)), options);
}

// With the model on a GPU in place of the CPU's.
struct SmallGpuModel : SmallModel {
  explicit SmallGpuModel(const Config& of, const std::optional<SaneSettings>& trained = {},
                         const SaneChoice& sane = {},
                         kernel::WeightType weights = kernel::WeightType::f32)
      : SmallModel(of, trained, sane), cpu_model(std::move(model)) {
    model = on_gpu(path, {.weights = weights, .sane = sane});
  }
  std::unique_ptr<LanguageModel> cpu_model;
};

class GpuFamily : public testing::TestWithParam<size_t> {
 protected:
  Config config = dense_configs()[GetParam()];
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Configs, GpuFamily, testing::Range<size_t>(0, dense_configs().size()));

void expect_close(const char* what, std::span<const float> found, std::span<const float> plain,
                  std::span<const double> truth) {
  const Closeness result = closeness(found, plain, truth, Criterion::rms_error);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

// However it is cut into calls.
void expect_definition(const SmallModel& small, const std::vector<int32_t>& tokens,
                       const std::vector<std::vector<int64_t>>& all_calls) {
  const auto truth =
      reference::forward<double>(small.config, small.source, small.model->sane(), tokens);
  const auto plain =
      reference::forward<float>(small.config, small.source, small.model->sane(), tokens);
  for (const std::vector<int64_t>& calls : all_calls) {
    SequenceState state = small.model->fresh_state();
    expect_close("logits", small.logits(tokens, state, calls), plain.logits, truth.logits);
    size_t layer = 0;
    for (const StatePart& part : state.layout().parts())
      if (part.kind == StateKind::memory) {
        expect_close("memory", state.of(part), plain.memories[layer], truth.memories[layer]);
        ++layer;
      }
  }
}

TEST_P(GpuFamily, IsTheDefinitionHoweverItIsCut) {
  const SmallGpuModel small(config);
  expect_definition(small, random_tokens(30, config.vocabulary), {{}, {1, 2, 3, 20}});
}

TEST_P(GpuFamily, WithSaneIsTheDefinition) {
  const SmallGpuModel run_time(config, {}, {.alpha = 0.05});
  expect_definition(run_time, random_tokens(20, config.vocabulary), {{15, 1}});
  const SmallGpuModel trained(config, SaneSettings{0.1, 5});
  expect_definition(trained, random_tokens(12, config.vocabulary), {{4, 1}});
}

TEST_P(GpuFamily, AlphasOfASequenceAreUsed) {
  const SmallGpuModel small(config, {}, {.alpha = 0.5});
  const std::vector<int32_t> tokens = random_tokens(34, config.vocabulary);
  SequenceState here = small.model->fresh_state(), there = small.cpu_model->fresh_state();
  for (size_t i = 0; i < here.layout().heads().size(); ++i) here.alphas.push_back(0.01f * float(i));
  there.alphas = here.alphas;
  const std::vector<float> found = small.logits(tokens, here);
  Tensor<float> expected({34, config.vocabulary});
  small.cpu_model->forward({tokens, &there, Want::all_logits, expected.view()}, small.cpu);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[int64_t(i)], 5e-5);
}

// Prompts and single tokens together, and then a token of each, three times: the third is captured
// work.
TEST_P(GpuFamily, SequencesOfABatchAreAlone) {
  const SmallGpuModel small(config, {}, {.alpha = 0.05});
  const LanguageModel& model = *small.model;
  std::vector<SequenceState> states, alone;
  std::vector<std::vector<int32_t>> tokens;
  for (const int64_t count : {1, 18, 3}) {
    states.push_back(model.fresh_state()), alone.push_back(model.fresh_state());
    tokens.push_back(random_tokens(count + 3, config.vocabulary, uint64_t(count) + tokens.size()));
  }
  const auto run = [&](auto&& part) {
    Tensor<float> logits({int64_t(tokens.size()), model.vocabulary()}), own({1, model.vocabulary()});
    std::vector<SequenceInput> batch;
    for (size_t i = 0; i < tokens.size(); ++i)
      batch.push_back({part(tokens[i]), &states[i], Want::last_logits,
                       logits.view().slice(0, int64_t(i), 1)});
    model.forward(batch, small.cpu);
    for (size_t i = 0; i < tokens.size(); ++i) {
      model.forward({part(tokens[i]), &alone[i], Want::last_logits, own.view()}, small.cpu);
      for (int64_t v = 0; v < model.vocabulary(); ++v)
        EXPECT_NEAR(logits[int64_t(i) * model.vocabulary() + v], own[v], 2e-5) << i;
      EXPECT_EQ(states[i].position, alone[i].position);
    }
  };
  run([](std::span<const int32_t> all) { return all.first(all.size() - 3); });
  for (size_t left = 3; left > 0; --left)
    run([&](std::span<const int32_t> all) { return all.subspan(all.size() - left, 1); });
}

TEST_P(GpuFamily, LossesAndLikeliestTokensAreThoseOfTheLogits) {
  const SmallGpuModel small(config);
  const std::vector<int32_t> tokens = random_tokens(20, config.vocabulary);
  SequenceState one = small.model->fresh_state(), other = small.model->fresh_state(),
                third = small.model->fresh_state();
  const std::vector<float> logits = small.logits(std::span(tokens).first(19), one);
  std::vector<double> losses(19);
  score(*small.model, std::span(tokens).first(19), std::span(tokens).subspan(1), other, losses,
        small.cpu);
  std::vector<TokenLogProbability> top(19 * 2), expected(2);
  SequenceInput input{std::span(tokens).first(19), &third, Want::top_log_probabilities};
  input.top = top, input.top_count = 2;
  small.model->forward(input, small.cpu);
  for (size_t t = 0; t < 19; ++t) {
    const auto row = std::span(logits).subspan(t * size_t(config.vocabulary),
                                               size_t(config.vocabulary));
    EXPECT_NEAR(losses[t], -log_probability(row, tokens[t + 1]), 1e-5);
    take_top(row, expected);
    EXPECT_EQ(top[2 * t].token, expected[0].token);
  }
}

// The first half on one device, the second on the other, and back.
TEST_P(GpuFamily, StatesMoveBetweenDevices) {
  const SmallGpuModel small(config, {}, {.alpha = 0.05});
  const std::vector<int32_t> tokens = random_tokens(40, config.vocabulary);
  SequenceState state = small.model->fresh_state(), whole = small.model->fresh_state();
  const std::vector<float> expected = small.logits(tokens, whole);
  Tensor<float> logits({40, config.vocabulary});
  for (const auto& [from, count, model] :
       {std::tuple{0, 13, small.model.get()}, {13, 17, small.cpu_model.get()},
        {30, 10, small.model.get()}})
    model->forward({std::span(tokens).subspan(size_t(from), size_t(count)), &state,
                    Want::all_logits, logits.view().slice(0, from, count)},
                   small.cpu);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(logits[int64_t(i)], expected[i], 5e-5) << i;
  const SequenceState copy = state.clone();
  for (const StatePart& part : state.layout().parts())
    EXPECT_TRUE(std::ranges::equal(state.of(part), copy.of(part)));
}

TEST_P(GpuFamily, WindowOfAttentionIsTheDefinition) {
  if (!config.has(Mixer::attention)) return;
  SmallGpuModel small(config);
  small.model = on_gpu(small.path, {.weights = kernel::WeightType::f32, .attention_window = 9});
  small.cpu_model =
      open_model(small.path, {.weights = kernel::WeightType::f32, .attention_window = 9});
  small.config.window = small.config.window ? std::min<int64_t>(9, small.config.window) : 9;
  small.config.kept = 4;
  const std::vector<int32_t> tokens = random_tokens(70, config.vocabulary);
  expect_definition(small, tokens, {{50, 1}});
  // As many rows on the host as the CPU's has.
  SequenceState here = small.model->fresh_state(), there = small.model->fresh_state();
  small.model->forward({.tokens = tokens, .state = &here}, small.cpu);
  small.cpu_model->forward({.tokens = tokens, .state = &there}, small.cpu);
  EXPECT_EQ(here.cache(0).size(), there.cache(0).size());
  for (size_t i = 0; i < there.cache(0).size(); ++i)
    EXPECT_NEAR(here.cache(0)[i], there.cache(0)[i], 1e-4);
}

TEST_P(GpuFamily, WithHalfTheBitsIsNear) {
  const SmallGpuModel small(config, {}, {.alpha = 0.5}, kernel::WeightType::bf16);
  const std::vector<int32_t> tokens = random_tokens(20, config.vocabulary);
  SequenceState state = small.model->fresh_state(), other = small.cpu_model->fresh_state();
  const std::vector<float> found = small.logits(tokens, state, {11, 1});
  Tensor<float> expected({20, config.vocabulary});
  small.cpu_model->forward({tokens, &other, Want::all_logits, expected.view()}, small.cpu);
  double error = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += std::pow(double(found[i]) - double(expected[int64_t(i)]), 2);
    size += std::pow(double(expected[int64_t(i)]), 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.15);
  EXPECT_GT(error, 0);
  EXPECT_EQ(small.model->weight_type(), "bf16");
}

// Sizes that tiles take, in bf16: a prompt at once, on the tensor cores, against the same tokens one
// by one, which take none. Both are bf16 between operators, so they differ by its rounding.
class GpuFamilyTiles : public testing::TestWithParam<kernel::Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, GpuFamilyTiles,
                         testing::Values(kernel::Rule::deltanet, kernel::Rule::gated_deltanet,
                                         kernel::Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });
TEST_P(GpuFamilyTiles, AreTheTokensOneByOne) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  Config config = small_config(GetParam());
  config.mixers = {Mixer::recurrent, Mixer::attention};
  config.key_size = 64, config.value_size = 32, config.value_heads = 4;
  config.gate = OutputGate::silu;
  config.heads = 2, config.kv_heads = 1, config.head_size = 64, config.rotary = 16;
  config.theta = 1e4, config.attention_gate = true, config.qk_norm = QkNorm::head;
  const SmallGpuModel small(config, SaneSettings{0.1, 16}, {}, kernel::WeightType::bf16);
  const std::vector<int32_t> tokens = random_tokens(53, config.vocabulary);
  SequenceState at_once = small.model->fresh_state(), one_by_one = small.model->fresh_state();
  const std::vector<float> found = small.logits(tokens, at_once, {19});
  const std::vector<float> expected = small.logits(tokens, one_by_one, std::vector<int64_t>(53, 1));
  const auto relative_error = [](std::span<const float> a, std::span<const float> b) {
    double error = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i)
      error += std::pow(double(a[i]) - double(b[i]), 2), size += std::pow(double(b[i]), 2);
    return std::sqrt(error / size);
  };
  EXPECT_LT(relative_error(found, expected), 0.02);
  for (const StatePart& part : at_once.layout().parts())
    EXPECT_LT(relative_error(at_once.of(part), one_by_one.of(part)), 0.02) << part.name;
}

TEST(GpuFamilyFiles, WhatTheKernelsLackIsNamed) {
  for (const Config& config : small_configs()) {
    if (is_dense(config)) continue;
    const SmallModel small(config);
    EXPECT_FAULT(on_gpu(small.path, {}), Fault::usage, "for a GPU; use the device cpu");
  }
}

}  // namespace
}  // namespace deltasane::gated_delta
