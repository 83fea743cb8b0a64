// Optimisers against their definitions, and Newton-Schulz against what is known of it.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "train/muon.h"
#include "train/muon_reference.h"
#include "train/training_fixture.h"

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

TEST(NewtonSchulz, IsTheDefinition) {
  ThreadPool threads(2);
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{24, 24}, {13, 40}, {40, 13}, {64, 16}}) {
    std::vector<float> found = random_numbers<float>(rows * columns, 0.01, 1), plain = found;
    std::vector<double> truth(found.begin(), found.end());
    newton_schulz({found.data(), {rows, columns}}, {threads});
    reference::newton_schulz<float>(plain, rows, columns);
    reference::newton_schulz<double>(truth, rows, columns);
    expect_definition(found, plain, truth, cat(rows, " x ", columns));
  }
}

// Eigenvalues of a symmetric matrix, by Jacobi's rotations.
std::vector<double> eigenvalues(std::vector<double> a, size_t n) {
  for (int sweep = 0; sweep < 60; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
        }
      }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(a[i * n + i]);
  return values;
}

std::vector<double> singular_values(std::span<const float> x, size_t rows, size_t columns) {
  std::vector<double> gram(rows * rows);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < rows; ++j)
      for (size_t k = 0; k < columns; ++k)
        gram[i * rows + j] += double(x[i * columns + k]) * double(x[j * columns + k]);
  std::vector<double> values = eigenvalues(gram, rows);
  for (double& value : values) value = std::sqrt(std::max(value, 0.0));
  return values;
}

// The polynomial acts on each singular value by itself, so the bounds follow from numbers alone.
TEST(NewtonSchulz, SingularValuesEndNearOne) {
  ThreadPool threads(2);
  const auto end_of = [](double s) {
    for (int i = 0; i < newton_schulz_steps; ++i)
      s = s * (newton_schulz_a + s * s * (newton_schulz_b + s * s * newton_schulz_c));
    return s;
  };
  double low = 10, high = 0;  // over all singular values from 0.01 to 1
  for (double s = 0.01; s <= 1; s += 1e-4) {
    low = std::min(low, end_of(s));
    high = std::max(high, end_of(s));
  }
  EXPECT_GT(low, 0.65);
  EXPECT_LT(high, 1.25);
  const size_t rows = 12, columns = 30;
  std::vector<float> x = random_numbers<float>(int64_t(rows * columns), 3, 2);
  double length = 0;
  for (const float value : x) length += double(value) * double(value);
  for (const double s : singular_values(x, rows, columns)) EXPECT_GT(s / std::sqrt(length), 0.01);
  newton_schulz({x.data(), {int64_t(rows), int64_t(columns)}}, {threads});
  for (const double s : singular_values(x, rows, columns)) {
    EXPECT_GT(s, low - 1e-4);
    EXPECT_LT(s, high + 1e-4);
  }
}

TEST(Optimizer, StepsAreTheDefinition) {
  ThreadPool threads(2);
  const ParameterLayout layout(test::tiny_shape(true));
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
            reference::muon_step<Real>(part(w), part(gradient), part(m), slot.shape[0],
                                       slot.shape[1], Real(rate), Real(rule.decay), Real(0.95));
          else
            reference::adamw_step<Real>(part(w), part(gradient), part(m), part(v), step,
                                        Real(rate * rule.rate_factor), Real(rule.decay), Real(0.9),
                                        Real(0.99), Real(1e-18));
        };
        both(plain, g, pm, pv, float());
        both(truth, gd, tm, tv, double());
        expect_definition(part(found), part(plain), part(truth), cat(slot.name, " step ", step));
      }
    }
  }
}

TEST(Optimizer, GroupsAreThoseOfTheRecipes) {
  const ParameterLayout layout(test::tiny_shape(true));
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
  EXPECT_EQ(counts["decayed"], 3 * 6 + 2);
  EXPECT_EQ(counts["double rate"], 3);
  EXPECT_EQ(counts["muon"], 3 * 6);
}

TEST(Optimizer, ClippingKeepsTheDirection) {
  ThreadPool threads(2);
  const ParameterLayout layout(test::tiny_shape(false));
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
  const ParameterLayout layout(test::tiny_shape(false));
  std::vector<float> g(size_t(layout.elements()), 0.5f);
  g[size_t(layout.slot("blocks.1.att.w0").offset + 2)] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(clip_gradient(layout, g, 1, {threads}), Fault::overflow,
               "gradient of blocks.1.att.w0: expected finite numbers, found nan at 2");
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
