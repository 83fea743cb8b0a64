#include "probe/growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace deltasane::probe {
namespace {

Growth growth_in(auto value, int64_t points = 40, int64_t step = 4096, double noise = 0) {
  Random random(1);
  std::vector<int64_t> positions;
  std::vector<double> values;
  for (int64_t i = 1; i <= points; ++i) {
    positions.push_back(i * step);
    values.push_back(value(double(i * step)) * (1 + noise * random.normal()));
  }
  return growth_of(positions, values);
}

TEST(Growth, FindsALineAndItsRate) {
  for (const double offset : {0.0, 5.0, -2.0})
    for (const double rate : {1e-3, 1.0, 1e20}) {
      const Growth found =
          growth_in([&](double t) { return offset * rate * 1000 + rate * t; }, 40, 4096);
      EXPECT_EQ(found.law, GrowthLaw::linear);
      EXPECT_NEAR(found.rate, rate, rate * 1e-9);
      EXPECT_NEAR(found.doubling, 40 * 4096 + offset * 1000, 1);
    }
}

TEST(Growth, FindsAnExponentialAndItsDoubling) {
  for (const double doubling : {3000.0, 20000.0, 100000.0}) {
    const Growth found = growth_in([&](double t) { return 0.1 * std::exp2(t / doubling); });
    EXPECT_EQ(found.law, GrowthLaw::exponential);
    EXPECT_NEAR(found.rate, std::log(2.0) / doubling, 1e-9 / doubling);
    EXPECT_NEAR(found.doubling, doubling, doubling * 1e-9);
  }
}

TEST(Growth, IsNotFooledByNoise) {
  EXPECT_EQ(growth_in([](double t) { return t; }, 60, 4096, 0.05).law, GrowthLaw::linear);
  EXPECT_EQ(growth_in([](double t) { return std::exp2(t / 2e4); }, 60, 4096, 0.05).law,
            GrowthLaw::exponential);
  EXPECT_EQ(growth_in([](double) { return 7.0; }, 60, 4096, 0.05).law, GrowthLaw::bounded);
}

TEST(Growth, WaitsForTheEndOfATransient) {
  // An exponential that leaves a constant of ten times its size only half way.
  const Growth late =
      growth_in([](double t) { return std::hypot(0.1, 0.01 * std::exp2(t / 20000)); });
  EXPECT_EQ(late.law, GrowthLaw::exponential);
  EXPECT_NEAR(late.doubling, 20000, 0.05 * 20000);
  const Growth line = growth_in([](double t) { return 1e4 * std::exp(-t / 8000) + t; });
  EXPECT_EQ(line.law, GrowthLaw::linear);
  EXPECT_NEAR(line.rate, 1, 0.05);
}

TEST(Growth, CallsWhatSettlesBounded) {
  EXPECT_EQ(growth_in([](double t) { return 3 * std::tanh(t / 8192); }).law, GrowthLaw::bounded);
  EXPECT_EQ(growth_in([](double t) { return 1e6 / t; }).law, GrowthLaw::bounded);
  EXPECT_EQ(growth_in([](double t) { return t; }, 5).law, GrowthLaw::bounded);  // too few points
  EXPECT_EQ(growth_of({}, {}), Growth{});
}

TEST(Growth, LeavesOutWhatIsNotANumber) {
  std::vector<int64_t> positions;
  std::vector<double> values;
  for (int64_t i = 1; i <= 20; ++i) positions.push_back(i), values.push_back(double(2 * i));
  values[3] = values[19] = std::numeric_limits<double>::infinity();
  values[12] = std::numeric_limits<double>::quiet_NaN();
  const Growth found = growth_of(positions, values);
  EXPECT_EQ(found.law, GrowthLaw::linear);
  EXPECT_NEAR(found.rate, 2, 1e-12);
  EXPECT_NEAR(tokens_until(found, 100), 31, 1e-9);
  EXPECT_EQ(tokens_until(found, 10), 0);
}

}  // namespace
}  // namespace deltasane::probe
