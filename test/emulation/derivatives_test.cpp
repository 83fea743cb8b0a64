// SANE's derivatives on a GPU, entry by entry: each approximation is as exact as docs/numerics.md
// says.
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel/delta_rule/cuda/neutralize.cuh"

namespace deltasane::kernel::cuda {
namespace {

constexpr double half_ulp = 0x1p-24;  // the largest error of a rounding

double exact_tau_derivative(double q) {
  if (q >= 1) return 1;
  if (q < 1e-3)  // by its series, where the difference would cancel
    return 2.0 / 3 + q * (2.0 / 15 + q * (2.0 / 35 + q * (2.0 / 63)));
  return (1 - (1 - q) * std::atanh(std::sqrt(q)) / std::sqrt(q)) / q;
}
// Relative, of the derivative by tau over x q.
template <class Approximation>
double largest_tau_error(double limit, Approximation&& approximation) {
  double largest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const float x = float(limit * i / 20001), q = x * x;
    largest = std::max(largest, std::abs(approximation(q) / exact_tau_derivative(q) - 1));
  }
  return largest;
}
// Likewise of the derivative by the state.
double largest_state_error(double limit) {
  double largest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const float x = float(limit * i / 20001), w = 0.9f;
    const double exact = double(w) * (1 - double(x) * x);
    largest = std::max(largest, std::abs(state_derivative(x * x, w) / exact - 1));
  }
  return largest;
}

// Derivatives near 0 have the rounding of x.
TEST(NeutralizeDerivatives, OfTheState) {
  EXPECT_LT(largest_state_error(0.25), 1.1 * half_ulp);
  EXPECT_LT(largest_state_error(0.6), 2 * half_ulp);
  EXPECT_EQ(state_derivative(1, 0.9f), 0);
}

const double tiny_after = std::tanh(tiny_limit);  // the largest tiny entry, after SANE
// The error of the polynomial, and the rounding of its sums.
TEST(NeutralizeDerivatives, OfTinyEntries) {
  EXPECT_LT(largest_tau_error(tiny_after, [](float q) { return tau_derivative_tiny(q); }),
            1.3e-6 + 2 * half_ulp);
}
TEST(NeutralizeDerivatives, OfTinyEntriesInAnotherUnit) {
  const float unit = 9;
  EXPECT_LT(
      largest_tau_error(tiny_after, [&](float q) { return tau_derivative_tiny(q / unit, unit); }),
      1.3e-6 + 2 * half_ulp);
}
TEST(NeutralizeDerivatives, OfModerateEntries) {
  EXPECT_LT(largest_tau_error(moderate_limit, tau_derivative_moderate), 2.1e-7 + 2 * half_ulp);
}
TEST(NeutralizeDerivatives, OfSmallEntries) {
  EXPECT_LT(largest_tau_error(small_limit, tau_derivative_small), 1.3e-7 + 2 * half_ulp);
}
// Terms are up to three times the sum.
TEST(NeutralizeDerivatives, OfAnyEntries) {
  EXPECT_LT(largest_tau_error(1, tau_derivative_any), 3.1e-7 + 6 * half_ulp);
}
TEST(NeutralizeDerivatives, OfSaturatedEntries) {
  for (const float q : {std::nextafter(1.0f, 0.0f), 1.0f, std::nextafter(1.0f, 2.0f)})
    EXPECT_NEAR(tau_derivative_any(q), exact_tau_derivative(q), 3.1e-7 + 6 * half_ulp);
}
// Entries that are small before SANE are small after it.
TEST(NeutralizeDerivatives, SmallEntriesStaySmall) {
  EXPECT_LT(std::tanh(small_limit_before), small_limit);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
