// What SANE makes of gradients on a GPU, one entry after the other: each way is as exact as the
// numerics page says.
#include "kernel/delta_rule/cuda_slopes.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace deltasane::kernel::cuda {
namespace {

constexpr double half_ulp = 0x1p-24;  // what a rounding is off, at most

struct SlopeErrors {
  double of_state = 0, of_tau = 0;  // the former by its size, the latter absolute
  double of_tau_by_size = 0;
};
// The largest for |x| up to `limit`, of both signs.
template <class Way>
SlopeErrors largest_errors(double limit, Way&& way) {
  SlopeErrors largest;
  for (int i = 1; i <= 20000; ++i)
    for (const double sign : {-1.0, 1.0}) {
      const float x = float(sign * limit * i / 20001), w = 0.9f;
      const BothSlopes both = way(x, x * x, w);
      const double exact = x, of_state = w * (1 - exact * exact);
      // By its series where the difference would cancel.
      const double q = exact * exact;
      const double of_tau =
          q > 1e-3 ? exact - std::atanh(exact) * (1 - q)
                   : exact * q * (2.0 / 3 + q * (2.0 / 15 + q * (2.0 / 35 + q * (2.0 / 63))));
      largest.of_state = std::max(largest.of_state, std::abs(both.of_state / of_state - 1));
      largest.of_tau = std::max(largest.of_tau, std::abs(both.of_tau - of_tau));
      largest.of_tau_by_size = std::max(largest.of_tau_by_size, std::abs(both.of_tau / of_tau - 1));
    }
  return largest;
}

// Four roundings: the square, the sum, two products.
TEST(Slopes, OfTinyEntries) {
  const SlopeErrors errors = largest_errors(0.25, slopes_at_tiny);
  EXPECT_LT(errors.of_state, 1.1 * half_ulp);
  EXPECT_LT(errors.of_tau_by_size, 4e-7 + 4 * half_ulp);
}
TEST(Slopes, OfSmallEntries) {
  const SlopeErrors errors = largest_errors(0.6, slopes_at_small);
  EXPECT_LT(errors.of_state, 2 * half_ulp);
  EXPECT_LT(errors.of_tau_by_size, 3e-8 + 4 * half_ulp);
}
// Sums near 1 are rounded, and so are their logarithms; slopes near 0 have the rounding of x.
TEST(Slopes, OfAnyEntries) {
  const SlopeErrors errors = largest_errors(0.999, slopes_at_any);
  EXPECT_LT(errors.of_state, 4 * half_ulp);
  EXPECT_LT(errors.of_tau, 6 * half_ulp);
}
TEST(Slopes, OfSaturatedEntriesAreFinite) {
  for (const float x : {-1.0f, 1.0f}) {
    const BothSlopes both = slopes_at_any(x, 1, 0.9f);
    EXPECT_EQ(both.of_state, 0);
    EXPECT_EQ(both.of_tau, x);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
