// What SANE makes of gradients on a GPU, one entry after the other: each way is as exact as the
// numerics page says.
#include "kernel/delta_rule/cuda_slopes.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace deltasane::kernel::cuda {
namespace {

constexpr double half_ulp = 0x1p-24;  // what a rounding is off, at most

double exact_tau_slope(double q) {
  if (q >= 1) return 1;
  if (q < 1e-3)  // by its series, where the difference would cancel
    return 2.0 / 3 + q * (2.0 / 15 + q * (2.0 / 35 + q * (2.0 / 63)));
  return (1 - (1 - q) * std::atanh(std::sqrt(q)) / std::sqrt(q)) / q;
}
// Of tau's slope over x q, by its own size.
template <class Way>
double largest_slope_error(double limit, Way&& way) {
  double largest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const float x = float(limit * i / 20001), q = x * x;
    largest = std::max(largest, std::abs(way(q) / exact_tau_slope(q) - 1));
  }
  return largest;
}
// Of the state's, likewise.
double largest_state_slope_error(double limit) {
  double largest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const float x = float(limit * i / 20001), w = 0.9f;
    const double exact = double(w) * (1 - double(x) * x);
    largest = std::max(largest, std::abs(state_slope(x * x, w) / exact - 1));
  }
  return largest;
}

// Slopes near 0 have the rounding of x.
TEST(Slopes, OfTheState) {
  EXPECT_LT(largest_state_slope_error(0.25), 1.1 * half_ulp);
  EXPECT_LT(largest_state_slope_error(0.6), 2 * half_ulp);
  EXPECT_EQ(state_slope(1, 0.9f), 0);
}

const double tiny_left = std::tanh(tiny_part);  // by SANE, at most, of tiny entries
// What the polynomial is off, and the rounding of its sums.
TEST(Slopes, OfTinyEntries) {
  EXPECT_LT(largest_slope_error(tiny_left, [](float q) { return tau_slope_at_tiny(q); }),
            1.3e-6 + 2 * half_ulp);
}
TEST(Slopes, OfTinyEntriesInAnotherUnit) {
  const float unit = 9;
  EXPECT_LT(
      largest_slope_error(tiny_left, [&](float q) { return tau_slope_at_tiny(q / unit, unit); }),
      1.3e-6 + 2 * half_ulp);
}
TEST(Slopes, OfModerateEntries) {
  EXPECT_LT(largest_slope_error(moderate_part, tau_slope_at_moderate), 2.1e-7 + 2 * half_ulp);
}
TEST(Slopes, OfSmallEntries) {
  EXPECT_LT(largest_slope_error(small_part, tau_slope_at_small), 1.3e-7 + 2 * half_ulp);
}
// Terms are up to three times the sum.
TEST(Slopes, OfAnyEntries) {
  EXPECT_LT(largest_slope_error(1, tau_slope_at_any), 3.1e-7 + 6 * half_ulp);
}
TEST(Slopes, OfSaturatedEntries) {
  for (const float q : {std::nextafter(1.0f, 0.0f), 1.0f, std::nextafter(1.0f, 2.0f)})
    EXPECT_NEAR(tau_slope_at_any(q), exact_tau_slope(q), 3.1e-7 + 6 * half_ulp);
}
// What SANE leaves of entries that are small before it is small after it.
TEST(Slopes, ReachIsOfWhatIsLeft) { EXPECT_LT(std::tanh(small_part_before), small_part); }

}  // namespace
}  // namespace deltasane::kernel::cuda
