// Small random models of every kind that a GPU takes, in float against the definition and in bf16
// near it; states between GPU and CPU.
#include "model/gated_delta/gpu/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/open.h"
#include "kernel/sampler/cuda.h"
#include "model/gated_delta/fixture.h"
#include "model/gated_delta/reference.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "tensor/cuda/gpu.h"
#include "tensor/rounded_number.h"

namespace deltasane::gated_delta {
namespace {

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
  Config config = small_configs()[GetParam()];
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Configs, GpuFamily, testing::Range<size_t>(0, small_configs().size()));

void expect_close(const char* what, std::span<const float> found, std::span<const float> plain,
                  std::span<const double> truth) {
  const Closeness result = closeness(found, plain, truth, Criterion::rms_error);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

// The definition's outcome in double and in float.
struct Defined {
  reference::Outcome<double> truth;
  reference::Outcome<float> plain;

  Defined(const SmallModel& small, std::span<const int32_t> tokens,
          std::span<const float> alphas = {})
      : truth(reference::forward<double>(small.config, small.source, small.model->sane(), tokens,
                                         alphas)),
        plain(reference::forward<float>(small.config, small.source, small.model->sane(), tokens,
                                        alphas)) {}
  // Logits of the tokens from `from` on.
  void expect_logits(const char* what, std::span<const float> found, size_t from = 0) const {
    expect_close(what, found, std::span(plain.logits).subspan(from, found.size()),
                 std::span(truth.logits).subspan(from, found.size()));
  }
};

// However it is cut into calls.
void expect_definition(const SmallModel& small, const std::vector<int32_t>& tokens,
                       const std::vector<std::vector<int64_t>>& all_calls) {
  const Defined defined(small, tokens);
  for (const std::vector<int64_t>& calls : all_calls) {
    SequenceState state = small.model->fresh_state();
    defined.expect_logits("logits", small.logits(tokens, state, calls));
    size_t layer = 0;
    for (const StatePart& part : state.layout().parts())
      if (part.kind == StateKind::memory) {
        expect_close("memory", state.of(part), defined.plain.memories[layer],
                     defined.truth.memories[layer]);
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
  SequenceState state = small.model->fresh_state();
  for (size_t i = 0; i < state.layout().heads().size(); ++i)
    state.alphas.push_back(0.01f * float(i));
  const Defined defined(small, tokens, state.alphas);
  defined.expect_logits("logits", small.logits(tokens, state, {20, 1}));
}

// Prompts and single tokens together, and then a token of each, three times: the third is captured
// work.
TEST_P(GpuFamily, SequencesOfABatchAreAlone) {
  const SmallGpuModel small(config, {}, {.alpha = 0.05});
  const LanguageModel& model = *small.model;
  std::vector<SequenceState> states;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<Defined> defined;
  for (const int64_t count : {1, 18, 3}) {
    states.push_back(model.fresh_state());
    tokens.push_back(random_tokens(count + 3, config.vocabulary, uint64_t(count) + tokens.size()));
    defined.emplace_back(small, tokens.back());
  }
  const auto width = size_t(model.vocabulary());
  for (size_t left = 4; left > 0; --left) {  // tokens of each that are not read; 4: the first call
    Tensor<float> logits({int64_t(tokens.size()), model.vocabulary()});
    std::vector<SequenceInput> batch;
    const auto part = [&](std::span<const int32_t> all) {
      return left == 4 ? all.first(all.size() - 3) : all.subspan(all.size() - left, 1);
    };
    for (size_t i = 0; i < tokens.size(); ++i)
      batch.push_back({part(tokens[i]), &states[i], Want::last_logits,
                       logits.view().slice(0, int64_t(i), 1)});
    model.forward(batch, small.cpu);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const size_t read = tokens[i].size() - (left - 1);
      EXPECT_EQ(states[i].position, int64_t(read));
      defined[i].expect_logits("logits of a batch", logits.span().subspan(i * width, width),
                               (read - 1) * width);
    }
  }
}

// One sequence, and three, of which each has penalties: what the GPU draws is what its operator's
// definition draws from the logits, and each sampler goes on with its own token. After the first
// tokens of one of them nothing is wanted.
TEST_P(GpuFamily, SamplersDrawFromTheLogits) {
  const SmallGpuModel small(config, {}, {.alpha = 0.05});
  const LanguageModel& model = *small.model;
  for (const size_t count : {1, 3}) {
    SamplerSettings settings;
    settings.presence_penalty = 0.5, settings.frequency_penalty = 0.25;
    std::vector<Sampler> samplers, expected;
    std::vector<SequenceState> states, others;
    std::vector<kernel::SampledToken> sampled(count);
    std::vector<int32_t> tokens = random_tokens(int64_t(count), config.vocabulary);
    for (size_t i = 0; i < count; ++i) {
      samplers.emplace_back(settings, i), expected.emplace_back(settings, i);
      states.push_back(model.fresh_state()), others.push_back(model.fresh_state());
    }
    for (int step = 0; step < 4; ++step) {
      const auto is_unread = [&](size_t i) { return i == 1 && step < 2; };
      Tensor<float> logits({int64_t(count), model.vocabulary()});
      std::vector<SequenceInput> draws, asks;
      for (size_t i = 0; i < count; ++i) {
        draws.push_back({{&tokens[i], 1}, &states[i]});
        if (!is_unread(i)) {
          draws.back().want = Want::sample;
          draws.back().sampler = &samplers[i], draws.back().sampled = &sampled[i];
        }
        asks.push_back({{&tokens[i], 1}, &others[i], Want::last_logits,
                        logits.view().slice(0, int64_t(i), 1)});
      }
      model.forward(draws, small.cpu);
      model.forward(asks, small.cpu);
      for (size_t i = 0; i < count; ++i) {
        if (is_unread(i)) continue;
        std::vector<kernel::TokenPenalty> penalties;
        const kernel::SamplingParams params = expected[i].params(penalties);
        const kernel::SampledToken token = kernel::cuda::sample_row_on_host(
            logits.span().subspan(i * size_t(model.vocabulary()), size_t(model.vocabulary())),
            params, penalties);
        EXPECT_EQ(sampled[i].token, token.token) << count << ", " << step;
        expected[i].accept(token, model.vocabulary(), others[i].position);
        tokens[i] = token.token;
      }
    }
  }
}

template <class Real>
Real loss_of(std::span<const float> logits, int32_t target) {
  Real sum = 0;
  for (const float logit : logits) sum += std::exp(Real(logit) - Real(logits[size_t(target)]));
  return std::log(sum);
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
  std::vector<float> found, plain;
  std::vector<double> truth;
  for (size_t t = 0; t < 19; ++t) {
    const auto row = std::span(logits).subspan(t * size_t(config.vocabulary),
                                               size_t(config.vocabulary));
    found.push_back(float(losses[t]));
    plain.push_back(loss_of<float>(row, tokens[t + 1]));
    truth.push_back(loss_of<double>(row, tokens[t + 1]));
    take_top(row, expected);
    EXPECT_EQ(top[2 * t].token, expected[0].token);
  }
  expect_close("losses", found, plain, truth);
}

// The first half on one device, the second on the other, and back.
TEST_P(GpuFamily, StatesMoveBetweenDevices) {
  const SmallGpuModel small(config, {}, {.alpha = 0.05});
  const std::vector<int32_t> tokens = random_tokens(40, config.vocabulary);
  SequenceState state = small.model->fresh_state();
  Tensor<float> logits({40, config.vocabulary});
  for (const auto& [from, count, model] :
       {std::tuple{0, 13, small.model.get()}, {13, 17, small.cpu_model.get()},
        {30, 10, small.model.get()}})
    model->forward({std::span(tokens).subspan(size_t(from), size_t(count)), &state,
                    Want::all_logits, logits.view().slice(0, from, count)},
                   small.cpu);
  Defined(small, tokens).expect_logits("logits", logits.span());
  const SequenceState copy = state.clone();
  for (const StatePart& part : state.layout().parts())
    EXPECT_TRUE(std::ranges::equal(state.of(part), copy.of(part)));
}

TEST_P(GpuFamily, WindowOfAttentionIsTheDefinition) {
  if (!config.has(Mixer::attention)) return;
  SmallGpuModel small(config);
  const int64_t window = config.window ? config.window - 2 : 9;
  const OpenOptions options{.weights = kernel::WeightType::f32, .attention_window = window};
  small.model = on_gpu(small.path, options), small.cpu_model = open_model(small.path, options);
  small.config.window = window, small.config.kept = 4;
  const std::vector<int32_t> tokens = random_tokens(70, config.vocabulary);
  expect_definition(small, tokens, {{50, 1}});
  // On the host it has the rows that the CPU's has, and the CPU goes on with them.
  SequenceState here = small.model->fresh_state(), there = small.model->fresh_state();
  const auto first = std::span(tokens).first(60), rest = std::span(tokens).subspan(60);
  small.model->forward({.tokens = first, .state = &here}, small.cpu);
  small.cpu_model->forward({.tokens = first, .state = &there}, small.cpu);
  EXPECT_EQ(here.cache(0).size(), there.cache(0).size());
  Tensor<float> logits({10, config.vocabulary});
  small.cpu_model->forward({rest, &here, Want::all_logits, logits.view()}, small.cpu);
  Defined(small, tokens).expect_logits("logits", logits.span(), 60 * size_t(config.vocabulary));
}

// As a GPU has it with weights of bf16: matrices are rounded, vectors are not.
template <class Real>
reference::Outcome<Real> with_rounded_matrices(const SmallModel& small,
                                               std::span<const int32_t> tokens) {
  const reference::ReadTensor<Real> read = [&](const std::string& name) {
    Tensor<float> found = small.source.read(name);
    if (found.shape().rank() > 1 && !name.ends_with("convolution.weight"))
      for (float& value : found.span()) value = float(bf16(value));
    return std::vector<Real>(found.span().begin(), found.span().end());
  };
  return reference::forward<Real>(small.config, read, small.model->sane(), tokens);
}
std::vector<float> floats_of(std::span<const RoundedNumber> numbers) {
  std::vector<float> all;
  for (const RoundedNumber one : numbers) all.push_back(one.value);
  return all;
}

TEST_P(GpuFamily, WithHalfTheBitsIsNear) {
  const SmallGpuModel small(config, {}, {.alpha = 0.5}, kernel::WeightType::bf16);
  const std::vector<int32_t> tokens = random_tokens(20, config.vocabulary);
  const auto truth = with_rounded_matrices<double>(small, tokens);
  const auto plain = with_rounded_matrices<RoundedNumber>(small, tokens);
  SequenceState state = small.model->fresh_state();
  const std::vector<float> found = small.logits(tokens, state, {11, 1});
  expect_close("logits", found, floats_of(plain.logits), truth.logits);
  EXPECT_EQ(small.model->weight_type(), "bf16");
}

// Sizes that tiles take, in bf16: a prompt at once, on the tensor cores. Plain are the same tokens
// eight at a time, which no tile takes: both are bf16 between operators.
class GpuFamilyTiles : public testing::TestWithParam<kernel::Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, GpuFamilyTiles,
                         testing::Values(kernel::Rule::deltanet, kernel::Rule::gated_deltanet,
                                         kernel::Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });
TEST_P(GpuFamilyTiles, AreThePlainRows) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  Config config = small_config(GetParam());
  config.mixers = {Mixer::recurrent, Mixer::attention};
  config.key_size = 64, config.value_size = 32, config.value_heads = 4;
  config.gate = OutputGate::silu;
  config.heads = 2, config.kv_heads = 1, config.head_size = 64, config.rotary = 16;
  config.theta = 1e4, config.attention_gate = true, config.qk_norm = QkNorm::head;
  const SmallGpuModel small(config, SaneSettings{0.1, 16}, {}, kernel::WeightType::bf16);
  const std::vector<int32_t> tokens = random_tokens(53, config.vocabulary);
  const auto truth = with_rounded_matrices<double>(small, tokens);
  SequenceState at_once = small.model->fresh_state(), in_eights = small.model->fresh_state();
  const std::vector<float> found = small.logits(tokens, at_once, {19});
  const std::vector<float> plain = small.logits(tokens, in_eights, std::vector<int64_t>(6, 8));
  expect_close("logits", found, plain, truth.logits);
  for (const StatePart& part : at_once.layout().parts())
    if (part.kind == StateKind::memory)
      expect_close("memory", at_once.of(part), in_eights.of(part), truth.memories[0]);
}

TEST(GpuFamilyFiles, WhatTheKernelsLackIsNamed) {
  Config wide = small_configs()[5];
  ASSERT_TRUE(wide.has(Mixer::attention));
  wide.head_size = 578;
  EXPECT_FAULT(on_gpu(SmallModel(wide).path, {}), Fault::usage,
               "expected heads of attention of up to 576 channels for a GPU, found 578; use the device");
  Config latent = small_configs().back();
  latent.latent_size = 600;
  EXPECT_FAULT(on_gpu(SmallModel(latent).path, {}), Fault::usage,
               "expected rows of latent attention of up to 576 channels for a GPU, found 606");
}

}  // namespace
}  // namespace deltasane::gated_delta
