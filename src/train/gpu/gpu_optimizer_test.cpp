// Both optimisers on a GPU against their definitions.
#include "train/gpu/gpu_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kernel/adamw/reference.h"
#include "kernel/muon/reference.h"
#include "tensor/closeness.h"
#include "tensor/cuda/gpu_tensor.h"
#include "kernel/muon/reference.h"
#include "train/layout_fixture.h"

namespace deltasane::train {
namespace {

constexpr double rate = 0.01;

std::vector<float> random_numbers_of(int64_t count, double scale, uint64_t stream) {
  Random random(21, stream);
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(float(scale * random.normal()));
  return out;
}

template <class Numbers>
auto part(Numbers& all, const ParameterSlot& slot) {
  return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
}

struct OptimizerCase {
  Gpu gpu{0};
  ParameterLayout layout = test::example_layout({128, 192, 24, 61});
  OptimizerSettings settings;
  std::vector<float> start, gradient;
  GpuTensor<float> parameters, on_gpu, first, second;
  GpuTensor<bf16> rounded;

  explicit OptimizerCase(OptimizerKind kind)
      : start(random_numbers_of(layout.elements(), 1, 1)), gradient(start.size()) {
    settings.kind = kind;
    for (const ParameterSlot& slot : layout.slots())  // gaps between slots stay zero
      std::ranges::copy(random_numbers_of(slot.elements(), 0.1, uint64_t(slot.offset) + 7),
                        part(gradient, slot).begin());
    for (GpuTensor<float>* row : {&parameters, &on_gpu, &first, &second})
      *row = GpuTensor<float>(gpu, {layout.elements()}, "a test");
    rounded = GpuTensor<bf16>(gpu, {layout.elements()}, "a test");
    parameters.upload(start, gpu);
    on_gpu.upload(gradient, gpu);
    first.zero(gpu), second.zero(gpu);
  }

  // The parameters after some steps with one gradient.
  std::vector<float> after(int64_t steps, double limit) {
    GpuOptimizer optimizer(layout, settings, gpu);
    for (int64_t step = 1; step <= steps; ++step) {
      optimizer.measure(on_gpu.data(), limit);
      optimizer.step(
          {parameters.data(), rounded.data(), on_gpu.data(), first.data(), second.data()}, rate,
          step);
    }
    std::vector<float> found(start.size());
    parameters.download(found, gpu);
    return found;
  }
};

class GpuOptimizerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};
class GpuOptimizerKinds : public GpuOptimizerTest,
                          public testing::WithParamInterface<OptimizerKind> {};

double norm_of(std::span<const float> x) {
  double squares = 0;
  for (const float value : x) squares += double(value) * double(value);
  return std::sqrt(squares);
}

TEST_F(GpuOptimizerTest, AdamwStepsAreTheDefinition) {
  OptimizerCase one(OptimizerKind::adamw);
  const int64_t steps = 3;
  const std::vector<float> found = one.after(steps, 0);
  for (const ParameterSlot& slot : one.layout.slots()) {
    const ParameterRule rule = rule_of(slot, one.settings);
    const auto stepped = [&]<class Real>(Real) {
      const auto from = part(one.start, slot), by = part(one.gradient, slot);
      std::vector<Real> w(from.begin(), from.end()), g(by.begin(), by.end()), m(w.size()),
          v(w.size());
      for (int64_t step = 1; step <= steps; ++step)
        kernel::reference::adamw_step<Real>(w, g, m, v, step, Real(rate * rule.rate_factor),
                                            Real(rule.decay), Real(0.9), Real(0.99), Real(1e-18));
      return w;
    };
    const Closeness result = closeness(part(found, slot), stepped(float()), stepped(double()));
    EXPECT_TRUE(result.close) << slot.name << " is " << result.explanation();
  }
}

// The yardstick is how far the definition's update moves when the gradient is rounded to bf16 once.
// Newton-Schulz rounds its input and then x, A and A's polynomial in each of five steps.
// Independent errors add up as squares; twice that is allowed.
TEST_F(GpuOptimizerTest, MuonStepIsOffByItsRoundings) {
  OptimizerCase one(OptimizerKind::muon);
  const std::vector<float> found = one.after(1, 0);
  const double roundings = 1 + 3 * kernel::newton_schulz_steps;
  for (const ParameterSlot& slot : one.layout.slots()) {
    const ParameterRule rule = rule_of(slot, one.settings);
    if (!rule.muon) continue;
    const auto stepped = [&](bool round) {
      const auto from = part(one.start, slot), by = part(one.gradient, slot);
      std::vector<double> w(from.begin(), from.end()), g(by.begin(), by.end()), m(w.size());
      if (round)
        for (double& value : g) value = double(float(bf16(float(value))));
      kernel::reference::muon_step<double>(w, g, m, slot.shape[0], slot.shape[1], rate, rule.decay,
                                           0.95);
      return w;
    };
    const std::vector<double> truth = stepped(false), moved = stepped(true);
    double error = 0, yardstick = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      error += std::pow(double(part(found, slot)[i]) - truth[i], 2);
      yardstick += std::pow(moved[i] - truth[i], 2);
    }
    EXPECT_LE(std::sqrt(error), 2 * std::sqrt(roundings * yardstick)) << slot.name;
  }
}

TEST_P(GpuOptimizerKinds, EqualStepsGiveEqualBitsAndRoundedCopies) {
  OptimizerCase one(GetParam()), other(GetParam());
  const std::vector<float> found = one.after(2, 1);
  EXPECT_EQ(found, other.after(2, 1));
  std::vector<bf16> copies(found.size());
  one.rounded.download(copies, one.gpu);
  for (const ParameterSlot& slot : one.layout.slots())
    for (int64_t i = slot.offset; i < slot.offset + slot.elements(); ++i)
      ASSERT_EQ(copies[size_t(i)].bits, bf16(found[size_t(i)]).bits) << slot.name;
}

// AdamW's first step is one of signs, so what is clipped is seen in the means.
TEST_F(GpuOptimizerTest, AGradientAboveTheLimitIsClipped) {
  OptimizerCase one(OptimizerKind::adamw);
  one.after(1, 0.5);
  std::vector<float> means(one.start.size());
  one.first.download(means, one.gpu);
  EXPECT_NEAR(norm_of(means), 0.1 * 0.5, 1e-5);
  GpuOptimizer optimizer(one.layout, one.settings, one.gpu);
  optimizer.measure(one.on_gpu.data(), 0.5);
  EXPECT_NEAR(optimizer.norm(), norm_of(one.gradient), 1e-9 * norm_of(one.gradient));
}

TEST_P(GpuOptimizerKinds, AGradientThatIsNotFiniteChangesNothing) {
  OptimizerCase one(GetParam());
  one.gradient[size_t(one.layout.slot("block 1 key").offset + 5)] = INFINITY;
  one.on_gpu.upload(one.gradient, one.gpu);
  EXPECT_EQ(one.after(1, 1), one.start);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuOptimizerKinds,
                         testing::Values(OptimizerKind::adamw, OptimizerKind::muon),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace deltasane::train
