#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/errors.h"

namespace deltasane::eval {
namespace {

// Values to 17 digits were computed with 25 digits by mpmath.
// The logarithms in front of the continued fraction cancel; their rounding is what is left.
void expect_digits(double found, double known, double largest_logarithm = 10) {
  constexpr double unit = std::numeric_limits<double>::epsilon();
  EXPECT_NEAR(found, known, 8 * unit * largest_logarithm * std::abs(known));
}

TEST(Statistics, IncompleteBetaHasItsKnownValues) {
  expect_digits(incomplete_beta(5, 0.5, 0.3), 0.00069130338576297612);
  expect_digits(incomplete_beta(0.5, 0.5, 0.25), 0.33333333333333333);
  expect_digits(incomplete_beta(2, 3, 0.5), 0.6875);
  expect_digits(incomplete_beta(10, 1, 0.9), 0.34867844010000009);
  expect_digits(incomplete_beta(1000, 1001, 0.5), 0.50891950557292716, std::lgamma(2001));
  expect_digits(incomplete_beta(0.5, 5, 0.999), 0.99999999999999975);
  expect_digits(incomplete_beta(3000.0, 20, 0.99), 0.019767894047843187, std::lgamma(3020));
  EXPECT_EQ(incomplete_beta(2, 3, 0), 0);
  EXPECT_EQ(incomplete_beta(2, 3, 1), 1);
}

TEST(Statistics, StudentsTHasItsKnownTails) {
  expect_digits(t_two_sided(2.25, 10), 0.048179650251511918);
  expect_digits(t_two_sided(0.5, 1), 0.70483276469913345);
  expect_digits(t_two_sided(40.0, 10), 2.2808577430857546e-12, 26);
  expect_digits(t_two_sided(1.5, 30), 0.144065929128646);
  expect_digits(t_two_sided(-1.5, 30), t_two_sided(1.5, 30));
  EXPECT_EQ(t_two_sided(0, 7), 1);
}

// Student's own table of 1908: hours of sleep that two drugs gave to ten patients.
TEST(Statistics, PairedTestOfStudentsSleepTable) {
  const std::vector<double> first{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const std::vector<double> second{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  const PairedT test = paired_t_test(first, second);
  EXPECT_NEAR(test.difference, 1.58, 1e-12);
  EXPECT_NEAR(test.t, 4.0621, 5e-5);
  EXPECT_NEAR(test.p, 0.002833, 5e-7);
  EXPECT_EQ(test.degrees, 9);
  EXPECT_NEAR(paired_t_test(second, first).t, -test.t, 1e-12);
}

TEST(Statistics, PairedTestOfSpecialCases) {
  const std::vector<double> a{1, 2, 3}, b{2, 3, 4}, one{1};
  EXPECT_EQ(paired_t_test(a, a).p, 1);
  EXPECT_EQ(paired_t_test(a, b).p, 0);
  EXPECT_TRUE(std::isinf(paired_t_test(a, b).t));
  EXPECT_FAULT(paired_t_test(one, one), Fault::argument, "expected at least 2 pairs");
}

TEST(Statistics, McNemarIsTheTailOfFairCoins) {
  expect_digits(mcnemar_exact(10, 20), 0.098737146705389023, std::lgamma(1061));
  expect_digits(mcnemar_exact(1, 9), 0.021484375, std::lgamma(1061));
  expect_digits(mcnemar_exact(500, 560), 0.069909559460269336, std::lgamma(1061));
  expect_digits(mcnemar_exact(0, 5), 0.0625, std::lgamma(1061));
  EXPECT_EQ(mcnemar_exact(0, 0), 1);
  EXPECT_EQ(mcnemar_exact(7, 7), 1);
}

// 300 of 1000 solved: the interval of the mean is about 1.96 standard errors wide on each side.
TEST(Statistics, BootstrapCoversWhatTheNormalCurveSays) {
  ThreadPool one(1), three(3);
  Outcomes benchmark(2, std::vector<uint8_t>(1000));
  for (size_t i = 0; i < 300; ++i) benchmark[0][i] = 1;
  for (size_t i = 0; i < 350; ++i) benchmark[1][i] = 1;  // the same, and 50 more
  const std::vector<Outcomes> benchmarks{benchmark};
  const BootstrapIntervals found = bootstrap(benchmarks, {.resamples = 4000}, one);
  const double half = 196 * std::sqrt(0.3 * 0.7 / 1000);
  // A quantile of 4000 resamples is itself off by a few percent of the width.
  EXPECT_NEAR(found.average[0].low, 30 - half, half / 10);
  EXPECT_NEAR(found.average[0].high, 30 + half, half / 10);
  const double paired = 196 * std::sqrt(0.05 * 0.95 / 1000);
  EXPECT_NEAR(found.difference[1].low, 5 - paired, paired / 10);
  EXPECT_NEAR(found.difference[1].high, 5 + paired, paired / 10);
  EXPECT_EQ(found.difference[0].low, 0);
  EXPECT_EQ(found.accuracy[0][1].low, found.average[1].low);
  const BootstrapIntervals again = bootstrap(benchmarks, {.resamples = 4000}, three);
  EXPECT_EQ(found.average[1].low, again.average[1].low);
  EXPECT_EQ(found.difference[1].high, again.difference[1].high);
}

}  // namespace
}  // namespace deltasane::eval
