// What SANE makes of gradients on a GPU, one entry after the other: each way is as exact as the
// numerics page says.
#include "kernel/delta_rule/cuda_slopes.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace deltasane::kernel::cuda {
namespace {

constexpr double half_ulp = 0x1p-24;  // what a rounding is off, at most

// Of tau's slope over x q, by its own size.
template <class Way>
double largest_slope_error(double limit, Way&& way) {
  double largest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const float x = float(limit * i / 20001), q = x * x;
    const double square = q, root = std::sqrt(square);
    // By its series where the difference would cancel.
    const double exact =
        square > 1e-3 ? (1 - (1 - square) * std::atanh(root) / root) / square
                      : 2.0 / 3 + square * (2.0 / 15 + square * (2.0 / 35 + square * (2.0 / 63)));
    largest = std::max(largest, std::abs(way(q) / exact - 1));
  }
  return largest;
}

// What the polynomial is off, and the rounding of its sums.
TEST(Slopes, OfTinyEntries) {
  EXPECT_LT(largest_slope_error(Tangent::quarter, [](float q) { return tau_slope_at_tiny(q); }),
            4e-7 + 2 * half_ulp);
}
TEST(Slopes, OfTinyEntriesInAnotherUnit) {
  const float unit = 9;
  EXPECT_LT(largest_slope_error(Tangent::quarter,
                                [&](float q) { return tau_slope_at_tiny(q / unit, unit); }),
            4e-7 + 2 * half_ulp);
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
    EXPECT_NEAR(tau_slope_at_any(q), 1, 3.1e-6);
}
// What SANE leaves of entries that are small before it is small after it.
TEST(Slopes, ReachIsOfWhatIsLeft) { EXPECT_LT(std::tanh(small_part_before), small_part); }

}  // namespace
}  // namespace deltasane::kernel::cuda
