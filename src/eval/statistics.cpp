#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"

namespace deltasane::eval {
namespace {

// The continued fraction of I_x(a, b) by Lentz's method; converges fast for x < (a+1)/(a+b+2).
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 100000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return value;
}

// Between the sorted values where they leave a gap.
double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * double(sorted.size() - 1);
  const size_t below = size_t(place), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - double(below)) * (sorted[above] - sorted[below]);
}

Interval interval_of(std::vector<double> values, double level) {
  std::ranges::sort(values);
  return {quantile(values, (1 - level) / 2), quantile(values, (1 + level) / 2)};
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  require(a > 0 && b > 0 && x >= 0 && x <= 1, "incomplete_beta has a, b > 0 and x in [0, 1]");
  if (x == 0 || x == 1) return x;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double t_two_sided(double t, double degrees) {
  if (std::isinf(t)) return 0;
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

PairedT paired_t_test(std::span<const double> first, std::span<const double> second) {
  require(first.size() == second.size(), "a paired test has pairs");
  if (first.size() < 2)
    fail(Fault::argument, "paired t-test: expected at least 2 pairs, found ", first.size());
  const double n = double(first.size());
  PairedT test;
  test.degrees = int64_t(first.size()) - 1;
  for (size_t i = 0; i < first.size(); ++i) test.difference += (second[i] - first[i]) / n;
  double squares = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double off = second[i] - first[i] - test.difference;
    squares += off * off;
  }
  if (squares == 0 && test.difference == 0) return test;
  const double deviation = std::sqrt(squares / (n - 1));
  test.t = squares == 0 ? std::copysign(std::numeric_limits<double>::infinity(), test.difference)
                        : test.difference / (deviation / std::sqrt(n));
  test.p = t_two_sided(test.t, double(test.degrees));
  return test;
}

double mcnemar_exact(int64_t only_first, int64_t only_second) {
  require(only_first >= 0 && only_second >= 0, "McNemar's test counts problems");
  const int64_t n = only_first + only_second, least = std::min(only_first, only_second);
  if (2 * least == n) return 1;
  return std::min(1.0, 2 * incomplete_beta(double(n - least), double(least + 1), 0.5));
}

BootstrapIntervals bootstrap(std::span<const Outcomes> benchmarks,
                             const BootstrapSettings& settings, ThreadPool& threads) {
  require(!benchmarks.empty() && settings.resamples > 0, "a bootstrap has something to draw");
  const size_t runs = benchmarks[0].size(), resamples = size_t(settings.resamples);
  // drawn[benchmark][run][resample]
  std::vector drawn(benchmarks.size(), std::vector(runs, std::vector<double>(resamples)));
  threads.parallel(settings.resamples, [&](int64_t resample) {
    Random random(settings.seed, uint64_t(resample));
    std::vector<int64_t> solved(runs);
    for (size_t b = 0; b < benchmarks.size(); ++b) {
      const size_t problems = benchmarks[b][0].size();
      std::ranges::fill(solved, 0);
      for (size_t i = 0; i < problems; ++i) {
        const size_t problem = random.below(problems);
        for (size_t run = 0; run < runs; ++run) solved[run] += benchmarks[b][run][problem];
      }
      for (size_t run = 0; run < runs; ++run)
        drawn[b][run][size_t(resample)] = 100.0 * double(solved[run]) / double(problems);
    }
  });
  BootstrapIntervals found;
  std::vector average(runs, std::vector<double>(resamples));
  for (const auto& benchmark : drawn) {
    found.accuracy.emplace_back();
    for (size_t run = 0; run < runs; ++run) {
      found.accuracy.back().push_back(interval_of(benchmark[run], settings.level));
      for (size_t i = 0; i < resamples; ++i)
        average[run][i] += benchmark[run][i] / double(benchmarks.size());
    }
  }
  for (size_t run = 0; run < runs; ++run) {
    std::vector<double> difference(resamples);
    for (size_t i = 0; i < resamples; ++i) difference[i] = average[run][i] - average[0][i];
    found.average.push_back(interval_of(average[run], settings.level));
    found.difference.push_back(interval_of(difference, settings.level));
  }
  return found;
}

}  // namespace deltasane::eval
