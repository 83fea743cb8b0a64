// The optimiser's steps against their definitions, its rules, clipping and schedule.
#include "train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "kernel/adamw/reference.h"
#include "kernel/muon/reference.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "kernel/muon/muon.h"
#include "kernel/muon/reference.h"
#include "train/layout_fixture.h"

namespace deltasane::train {
namespace {

template <class Real>
std::vector<Real> random_numbers(int64_t count, double scale, uint64_t stream) {
  Random random(21, stream);
  std::vector<Real> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(Real(float(scale * random.normal())));
  return out;
}

void expect_definition(std::span<const float> found, std::span<const float> plain,
                       std::span<const double> truth, const std::string& what) {
  const Closeness result = closeness(found, plain, truth);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

TEST(Optimizer, MuonTakesEachMatrixOfATensorByItself) {
  ThreadPool threads(1);
  const auto layout = [](int tensors, const Shape& shape) {
    return ParameterLayout([&](auto&& visit) {
      for (int i = 0; i < tensors; ++i) visit(cat("m", i), shape, ParameterRole::matrix, 0);
    });
  };
  OptimizerSettings settings;
  settings.kind = OptimizerKind::muon;
  Optimizer one(layout(1, {3, 4, 8}), settings), apart(layout(3, {4, 8}), settings);
  std::vector<float> together = random_numbers<float>(96, 1, 1), each = together;
  for (int64_t step = 1; step <= 2; ++step) {
    const std::vector<float> g = random_numbers<float>(96, 0.1, uint64_t(step));
    one.step(together, g, 0.01, {threads});
    apart.step(each, g, 0.01, {threads});
  }
  EXPECT_EQ(together, each);
}

TEST(Optimizer, StepsAreTheDefinition) {
  ThreadPool threads(2);
  const ParameterLayout layout = test::example_layout();
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon}) {
    OptimizerSettings settings;
    settings.kind = kind;
    Optimizer optimizer(layout, settings);
    const int64_t n = layout.elements();
    std::vector<float> found = random_numbers<float>(n, 1, 1), plain = found, pm(found.size()),
                       pv(found.size());
    std::vector<double> truth(found.begin(), found.end()), tm(found.size()), tv(found.size());
    for (int64_t step = 1; step <= 3; ++step) {
      const std::vector<float> g = random_numbers<float>(n, 0.1, uint64_t(100 + step));
      const std::vector<double> gd(g.begin(), g.end());
      const double rate = 0.01 / double(step);
      optimizer.step(found, g, rate, {threads});
      for (const ParameterSlot& slot : layout.slots()) {
        const ParameterRule rule = rule_of(slot, settings);
        const auto part = [&](auto& all) {
          return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
        };
        const auto both = [&]<class Real>(auto& w, auto& gradient, auto& m, auto& v, Real) {
          if (rule.muon)
            kernel::reference::muon_step<Real>(part(w), part(gradient), part(m), slot.shape[0],
                                               slot.shape[1], Real(rate), Real(rule.decay),
                                               Real(0.95));
          else
            kernel::reference::adamw_step<Real>(part(w), part(gradient), part(m), part(v), step,
                                                Real(rate * rule.rate_factor), Real(rule.decay),
                                                Real(0.9), Real(0.99), Real(1e-18));
        };
        both(plain, g, pm, pv, float());
        both(truth, gd, tm, tv, double());
        expect_definition(part(found), part(plain), part(truth), cat(slot.name, " step ", step));
      }
    }
  }
}

TEST(Optimizer, GroupsAreThoseOfTheRecipes) {
  const ParameterLayout layout = test::example_layout();
  OptimizerSettings settings;
  std::map<std::string, int64_t> counts;
  for (const ParameterSlot& slot : layout.slots()) {
    settings.kind = OptimizerKind::adamw;
    const ParameterRule own = rule_of(slot, settings);
    counts["decayed"] += own.decay > 0;
    counts["double rate"] += own.rate_factor == 2;
    settings.kind = OptimizerKind::muon;
    const ParameterRule sane = rule_of(slot, settings);
    counts["muon"] += sane.muon;
    EXPECT_EQ(sane.decay > 0, sane.muon) << slot.name;
    EXPECT_EQ(sane.rate_factor, 1) << slot.name;
  }
  constexpr int64_t matrices = test::example_blocks * test::example_matrices;
  EXPECT_EQ(counts["decayed"], matrices + 2);
  EXPECT_EQ(counts["double rate"], test::example_blocks);
  EXPECT_EQ(counts["muon"], matrices);
}

TEST(Optimizer, ClippingKeepsTheDirection) {
  ThreadPool threads(2);
  const ParameterLayout layout = test::example_layout();
  std::vector<float> g = random_numbers<float>(layout.elements(), 1, 3);
  const std::vector<float> before = g;
  double squares = 0;
  for (const float value : g) squares += double(value) * double(value);
  EXPECT_NEAR(clip_gradient(layout, g, 0, {threads}), std::sqrt(squares), 1e-9);
  EXPECT_EQ(g, before);
  EXPECT_NEAR(clip_gradient(layout, g, 1, {threads}), std::sqrt(squares), 1e-9);
  double after = 0;
  for (const float value : g) after += double(value) * double(value);
  EXPECT_NEAR(after, 1, 1e-5);
  EXPECT_GT(g[0] * before[0], 0);
}

TEST(Optimizer, AGradientThatIsNotFiniteIsNamed) {
  ThreadPool threads(2);
  const ParameterLayout layout = test::example_layout();
  std::vector<float> g(size_t(layout.elements()), 0.5f);
  g[size_t(layout.slot("block 1 decay bias").offset + 2)] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(clip_gradient(layout, g, 1, {threads}), Fault::overflow,
               "gradient of block 1 decay bias: expected finite numbers, found nan at 2");
}

TEST(RateSchedule, WarmsUpThenFollowsACosine) {
  const RateSchedule rate{.peak = 1, .first = 0.1, .last = 0.2, .warmup = 10, .steps = 111};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.55);
  EXPECT_DOUBLE_EQ(rate.at(10), 1);
  EXPECT_DOUBLE_EQ(rate.at(60), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(110), 0.2);
}

}  // namespace
}  // namespace deltasane::train
