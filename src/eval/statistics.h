// The statistics that comparisons of runs need.
//
//   paired t-test   over benchmarks: t = mean(d) / (sd(d) / sqrt(n)) with n - 1 degrees of freedom
//   McNemar, exact  over problems: of those that one run alone solved, is it half and half?
//   bootstrap       over problems, drawn within each benchmark, the same for all runs
//
// The bootstrap draws from counters (base/random.h): the same seed gives the same intervals for any
// number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"

namespace deltasane::eval {

// The regularised incomplete beta function I_x(a, b); a, b > 0 and 0 <= x <= 1.
double incomplete_beta(double a, double b, double x);

// The chance of a |t| at least this large.
double t_two_sided(double t, double degrees);

struct PairedT {
  double difference = 0;  // mean of second - first
  double t = 0, p = 1;    // t is infinite where all differences are the same and not 0
  int64_t degrees = 0;
};

// At least two pairs. Where nothing differs at all, t = 0 and p = 1.
PairedT paired_t_test(std::span<const double> first, std::span<const double> second);

// Two-sided: twice the chance that at most the smaller number of n fair coins fall on its side.
double mcnemar_exact(int64_t only_first, int64_t only_second);

struct Interval {
  double low = 0, high = 0;
};

// What several runs did on one benchmark: solved[run][problem], 1 or 0.
using Outcomes = std::vector<std::vector<uint8_t>>;

// Intervals of accuracies in percent; an average weighs every benchmark the same.
struct BootstrapIntervals {
  std::vector<std::vector<Interval>> accuracy;  // [benchmark][run]
  std::vector<Interval> average;                // [run]
  std::vector<Interval> difference;             // [run], of averages, to the first run
};

struct BootstrapSettings {
  int64_t resamples = 2000;
  double level = 0.95;
  uint64_t seed = 0;
};

BootstrapIntervals bootstrap(std::span<const Outcomes> benchmarks,
                             const BootstrapSettings& settings, ThreadPool& threads);

}  // namespace deltasane::eval
