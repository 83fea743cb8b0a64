// Both optimisers on a GPU against their definitions.
#include "train/gpu/gpu_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tensor/closeness.h"
#include "tensor/cuda/gpu_tensor.h"
#include "train/gpu/gpu_training_fixture.h"
#include "train/muon_reference.h"

namespace deltasane::train {
namespace {

std::vector<float> random_row(int64_t count, double scale, uint64_t stream) {
  Random random(21, stream);
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(float(scale * random.normal()));
  return out;
}

class GpuOptimizerTest : public testing::TestWithParam<OptimizerKind> {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

struct OptimizerRows {
  GpuTensor<float> parameters, gradient, first, second;
  OptimizerRows(const Gpu& gpu, std::span<const float> values)
      : parameters(gpu, {int64_t(values.size())}, "parameters"),
        gradient(gpu, parameters.shape(), "gradient"),
        first(gpu, parameters.shape(), "first"),
        second(gpu, parameters.shape(), "second") {
    parameters.upload(values, gpu);
    first.zero(gpu), second.zero(gpu);
  }
  GpuOptimizerRows rows() {
    return {parameters.data(), gradient.data(), first.data(), second.data()};
  }
};

TEST_P(GpuOptimizerTest, StepsAreTheDefinition) {
  const Gpu gpu(0);
  const ParameterLayout layout(test::gpu_shape(true));
  OptimizerSettings settings;
  settings.kind = GetParam();
  GpuOptimizer optimizer(layout, settings, Precision::fp32, gpu);
  const int64_t n = layout.elements();
  std::vector<float> found = random_row(n, 1, 1), plain = found, pm(found.size()),
                     pv(found.size());
  std::vector<double> truth(found.begin(), found.end()), tm(found.size()), tv(found.size());
  OptimizerRows on_gpu(gpu, found);
  for (int64_t step = 1; step <= 3; ++step) {
    const std::vector<float> g = random_row(n, 0.1, uint64_t(100 + step));
    std::vector<float> half = g;  // exactly
    for (float& value : half) value *= 0.5f;
    const std::vector<double> exact(half.begin(), half.end());
    const double rate = 0.01 / double(step);
    on_gpu.gradient.upload(g, gpu);
    optimizer.step(on_gpu.rows(), 0.5f, rate, step);
    on_gpu.parameters.download(found, gpu);
    for (const ParameterSlot& slot : layout.slots()) {
      const ParameterRule rule = rule_of(slot, settings);
      const auto part = [&](auto& all) {
        return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
      };
      const auto both = [&]<class Real>(auto& w, auto& gradient, auto& m, auto& v, Real) {
        if (rule.muon)
          reference::muon_step<Real>(part(w), part(gradient), part(m), slot.shape[0],
                                     slot.shape[1], Real(rate), Real(rule.decay), Real(0.95));
        else
          reference::adamw_step<Real>(part(w), part(gradient), part(m), part(v), step,
                                      Real(rate * rule.rate_factor), Real(rule.decay), Real(0.9),
                                      Real(0.99), Real(1e-18));
      };
      both(plain, half, pm, pv, float());
      both(truth, exact, tm, tv, double());
      const Closeness result = closeness(part(found), part(plain), part(truth));
      EXPECT_TRUE(result.close) << slot.name << " step " << step << " is " << result.explanation();
    }
  }
}

TEST_P(GpuOptimizerTest, EqualStepsGiveEqualBits) {
  const Gpu gpu(0);
  const ParameterLayout layout(test::gpu_shape(true));
  OptimizerSettings settings;
  settings.kind = GetParam();
  const std::vector<float> start = random_row(layout.elements(), 1, 1),
                           g = random_row(layout.elements(), 0.1, 2);
  const auto after = [&] {
    GpuOptimizer optimizer(layout, settings, Precision::bf16, gpu);
    OptimizerRows on_gpu(gpu, start);
    on_gpu.gradient.upload(g, gpu);
    for (int64_t step = 1; step <= 2; ++step) optimizer.step(on_gpu.rows(), 1, 0.01, step);
    std::vector<float> found(start.size());
    on_gpu.parameters.download(found, gpu);
    return found;
  };
  EXPECT_EQ(after(), after());
}

TEST_P(GpuOptimizerTest, LengthOfTheGradient) {
  const Gpu gpu(0);
  const ParameterLayout layout(test::gpu_shape(false));
  const std::vector<float> g = random_row(layout.elements(), 0.1, 3);
  double squares = 0;
  for (const float value : g) squares += double(value) * double(value);
  OptimizerRows on_gpu(gpu, g);
  GpuTensor<double> sum(gpu, {1}, "sum");
  OptimizerSettings settings;
  settings.kind = GetParam();
  GpuOptimizer optimizer(layout, settings, Precision::fp32, gpu);
  optimizer.sum_of_squares(on_gpu.parameters.data(), sum.data());
  double found = 0;
  sum.download({&found, 1}, gpu);
  EXPECT_NEAR(found, squares, 1e-9 * squares);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuOptimizerTest,
                         testing::Values(OptimizerKind::adamw, OptimizerKind::muon),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace deltasane::train
