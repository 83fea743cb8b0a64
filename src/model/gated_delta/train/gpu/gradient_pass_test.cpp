// The training step of the delta-rule family on a GPU against its definition, tensor by tensor.
#include "model/gated_delta/train/gpu/gradient_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/gated_delta/train/fixture.h"
#include "model/gated_delta/train/gpu/unsupported.h"
#include "model/train/gpu/fixture_gradient.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

using test::distance;
using test::GpuResult;

// What a GPU trains, with the channels that it needs.
std::vector<Config> trained_configs() {
  std::vector<Config> all;
  for (Config c : small_configs()) {
    c.channels = 64, c.vocabulary = 23, c.feed_forward = 20;
    if (!c.has(Mixer::latent) && !std::ranges::count(c.experts, true))
      all.push_back(c);
  }
  return all;
}

// By tiles, in bf16.
Config tiled(kernel::Rule rule) {
  Config c = small_config(rule);
  c.channels = 64, c.vocabulary = 23, c.key_size = 64, c.value_size = 32, c.key_heads = 1;
  c.gate = OutputGate::silu, c.sane = true;
  if (rule == kernel::Rule::kda) c.gate_rank = 8, c.gate_bias = true;
  return c;
}

// With attention as Qwen3.5 has it.
Config hybrid(kernel::Rule rule) {
  Config c = tiled(rule);
  c.mixers[1] = Mixer::attention, c.heads = 2, c.kv_heads = 1, c.head_size = 24, c.rotary = 8;
  c.theta = 1e4, c.attention_gate = true, c.qk_norm = QkNorm::head;
  return c;
}

// As OLMo-Hybrid has it.
Config with_norms_after(Config c) {
  c.norms_after = true, c.attention_gate = false, c.qk_norm = QkNorm::row;
  return c;
}

template <class Real>
GpuResult gradient_of(const Config& config, const Parameters& model, const TrainingBatch& batch,
                      const LossSettings& settings, Activations kept = Activations::keep,
                      int times = 1) {
  return test::gradient_on_gpu<Real>(model, batch, settings, times, [&](const Gpu& gpu) {
    return make_gpu_gradient_pass<Real>(config, model.sane(), {batch.sequences, batch.time, kept},
                                        gpu);
  });
}

std::string too_far(const Config& config, const std::optional<SaneSettings>& sane,
                    const TrainingBatch& batch, double error = 0) {
  return too_far_from_definition(
      config, sane, batch, error,
      [&](const Parameters& model, const LossSettings& settings, std::vector<float>& found) {
        const GpuResult result = gradient_of<float>(config, model, batch, settings);
        found = result.gradient;
        return result.loss;
      });
}

class GpuTests : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};
class GpuFamilyTraining : public GpuTests, public testing::WithParamInterface<size_t> {
 protected:
  Config config = SmallModel::with_sane(trained_configs()[GetParam()], true);
};
INSTANTIATE_TEST_SUITE_P(Small, GpuFamilyTraining,
                         testing::Range(size_t(0), trained_configs().size()));

TEST_P(GpuFamilyTraining, LossAndGradientAreTheDefinition) {
  EXPECT_EQ(too_far(config, SaneSettings{0.1, 5}, random_batch(config, 1, 18)), "");
}

// Padding in front of a row's tokens, whose last predicts the first of them; behind them; both.
TrainingBatch padded_at_the_ends(const Config& config, int64_t time) {
  TrainingBatch batch = random_batch(config, 3, time);
  batch.present.assign(size_t(batch.rows()), 1);
  const auto pad = [&](int64_t sequence, int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      const auto at = size_t(sequence * batch.time + t);
      batch.present[at] = 0;
      if (t > 0) batch.weights[at - 1] = 0;  // nobody learns it
      if (to == batch.time) batch.weights[at] = 0;
    }
  };
  pad(0, 0, 3), pad(1, time - 3, time), pad(2, 0, 5), pad(2, time - 1, time);
  return batch;
}
TEST_P(GpuFamilyTraining, WithPaddingTheyAreTheDefinition) {
  EXPECT_EQ(too_far(config, SaneSettings{0.1, 5}, padded_at_the_ends(config, 13)), "");
}

TEST_F(GpuTests, AFamilyModelWithoutSaneIsTheDefinition) {
  const Config config = trained_configs()[1];
  EXPECT_EQ(too_far(config, {}, random_batch(config, 1, 12)), "");
  EXPECT_NE(too_far(config, {}, random_batch(config, 1, 12), 1e-5), "") << "off by that much";
}

// The yardstick is how far the gradient moves when the matrices alone are rounded to bf16 once: what
// one rounding costs in this very model. The longest path through a layer has 24 of them (10 forward,
// 13 back, the matrices'), the head has 4. Independent errors add up as squares; twice that is
// allowed.
void expect_near(const Config& config, const TrainingBatch& batch) {
  const SaneSettings sane{0.5, 16};
  const Parameters model = random_parameters(config, sane, 5);
  const LossSettings settings{batch.weight_total(), 0};
  Parameters rounded = model.clone();
  for (const ParameterSlot& slot : model.layout().slots())
    if (slot.shape.rank() == 2 && !slot.name.ends_with("convolution.weight"))
      for (float& x : rounded.of(slot.name)) x = float(bf16(x));
  const auto truth = defined_gradient<double>(config, model, batch, settings);
  const auto moved = defined_gradient<double>(config, rounded, batch, settings);
  const GpuResult result = gradient_of<bf16>(config, model, batch, settings);
  const std::vector<double> found(result.gradient.begin(), result.gradient.end());
  const double roundings = double(24 * config.layers() + 4);
  for (const ParameterSlot& slot : model.layout().slots()) {
    const auto part = [&](const std::vector<double>& all) {
      return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
    };
    const double allowed =
        2 * std::sqrt(roundings) * distance(part(moved.gradient), part(truth.gradient));
    EXPECT_LE(distance(part(found), part(truth.gradient)), allowed) << slot.name;
    if (slot.role == ParameterRole::matrix) {
      EXPECT_GT(distance(part(truth.gradient), std::vector<double>(size_t(slot.elements()))),
                allowed)
          << slot.name << " is smaller than its bound";
    }
  }
  EXPECT_NEAR(result.loss, truth.loss, std::sqrt(roundings) * truth.loss / 256);
}

class GpuFamilyRules : public GpuTests, public testing::WithParamInterface<kernel::Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, GpuFamilyRules,
                         testing::Values(kernel::Rule::deltanet, kernel::Rule::gated_deltanet,
                                         kernel::Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

TEST_P(GpuFamilyRules, Bf16GradientsAreOffByTheirRoundings) {
  const Config by_tiles = tiled(GetParam());
  expect_near(by_tiles, random_batch(by_tiles, 1, 37));
  expect_near(by_tiles, padded_at_the_ends(by_tiles, 35));
  Config by_tokens = by_tiles;
  by_tokens.key_size = 40;
  expect_near(by_tokens, random_batch(by_tokens, 2, 18));
}

TEST_F(GpuTests, Bf16GradientsOfAHybridAreOffByTheirRoundings) {
  const Config config = hybrid(kernel::Rule::gated_deltanet);
  expect_near(config, random_batch(config, 2, 21));
}

TEST_F(GpuTests, Bf16GradientsWithNormsAfterAttentionAreOffByTheirRoundings) {
  const Config config = with_norms_after(hybrid(kernel::Rule::gated_deltanet));
  expect_near(config, random_batch(config, 2, 21));
  expect_near(config, padded_at_the_ends(config, 19));
}

void expect_no_trace(const Config& config) {
  const Parameters model = random_parameters(config, SaneSettings{1.0, 16}, 7);
  const TrainingBatch batch = random_batch(config, 2, 33);
  const LossSettings settings{batch.weight_total(), 1e-4};
  const auto once = [&]<class Real>(Real, Activations kept) {
    return gradient_of<Real>(config, model, batch, settings, kept);
  };
  EXPECT_EQ(once(bf16(), Activations::keep), once(bf16(), Activations::recompute));
  EXPECT_EQ(once(bf16(), Activations::keep), once(bf16(), Activations::keep));
  EXPECT_EQ(once(float(), Activations::keep), once(float(), Activations::recompute));
}
TEST_P(GpuFamilyRules, RecomputingAndRepeatingDoNotShow) {
  expect_no_trace(hybrid(GetParam()));
  expect_no_trace(with_norms_after(hybrid(GetParam())));
}

TEST_F(GpuTests, BucketsOfAFamilyModelAreCompleteWhenTheyAreReported) {
  const Config config = tiled(kernel::Rule::kda);
  const Parameters model = random_parameters(config, SaneSettings{1.0, 16}, 11);
  const TrainingBatch batch = random_batch(config, 1, 18);
  std::vector<std::pair<std::span<float>, std::vector<float>>> reported;
  const Gpu* gpu = nullptr;  // the pass's
  const GpuResult result = test::gradient_on_gpu<float>(
      model, batch, {batch.weight_total(), 0}, 1,
      [&](const Gpu& on) {
        gpu = &on;
        return make_gpu_gradient_pass<float>(config, model.sane(), {1, 18}, on);
      },
      [&](std::span<float> bucket) {
        std::vector<float> now(bucket.size());
        copy_to_host(now.data(), bucket.data(), bucket.size_bytes(), *gpu);
        gpu->wait();
        reported.emplace_back(bucket, now);
      });
  ASSERT_EQ(reported.size(), size_t(config.layers()) + 1);
  EXPECT_TRUE(std::ranges::is_sorted(reported, std::greater(),
                                     [](const auto& one) { return one.first.data(); }));
  const float* const begin = reported.back().first.data();  // the embedding is the first parameter
  size_t all = 0;
  for (const auto& [bucket, then] : reported) {
    const auto from = result.gradient.begin() + (bucket.data() - begin);
    EXPECT_TRUE(std::ranges::equal(then, std::span(from, bucket.size())));
    all += bucket.size();
  }
  EXPECT_EQ(all, result.gradient.size());
}

// What is announced before a run is what it takes.
TEST_P(GpuFamilyTraining, AllocatesWhatItSaysBeforehand) {
  const Gpu gpu(0);
  const SaneSettings sane{1, 16};
  for (const Activations kept : {Activations::keep, Activations::recompute}) {
    const PassSettings f32{3, 40, kept, Precision::fp32}, b16{3, 40, kept, Precision::bf16};
    EXPECT_EQ(make_gpu_gradient_pass<float>(config, sane, f32, gpu)->bytes(),
              gpu_gradient_pass_memory(config, sane, f32).total());
    EXPECT_EQ(make_gpu_gradient_pass<bf16>(config, sane, b16, gpu)->bytes(),
              gpu_gradient_pass_memory(config, sane, b16).total());
  }
}

TEST(GpuFamilyTrainingUnsupported, NeedsNoGpu) {
  Config c = tiled(kernel::Rule::gated_deltanet);
  EXPECT_NO_THROW(gpu::expect_trainable(c));
  c.channels = 96;
  EXPECT_FAULT(
      gpu::expect_trainable(c), Fault::usage,
      "training on a GPU: expected a multiple of 64 channels up to 8192, found 96; use the "
      "device cpu");
  c.channels = 64, c.mixers[1] = Mixer::latent;
  EXPECT_FAULT(gpu::expect_trainable(c), Fault::usage, "found latent attention");
  c.mixers[1] = Mixer::recurrent, c.experts[0] = true;
  EXPECT_FAULT(gpu::expect_trainable(c), Fault::usage, "expected dense networks, found experts");
  c.experts[0] = false, c.key_size = 320;
  EXPECT_FAULT(gpu::expect_trainable(c), Fault::usage, "up to 256 key channels, found 320");
}

}  // namespace
}  // namespace deltasane::gated_delta
