// SANE's tanh on a GPU, entry by entry: each approximation is as exact as docs/numerics.md says.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/delta_rule/cuda/neutralize.cuh"

namespace deltasane::kernel::cuda {
namespace {

constexpr double rounding = 0x1p-24;  // of a number, at most
constexpr float taus[] = {1e-30f, 1.2e-4f, 0.7f, 3.0f, 150.0f, 9e7f, 1e30f};

// The largest relative error for |x| / tau up to `limit`, of both signs and for several tau.
template <class Approximation>  // approximation(tau, x)
double largest_error(double limit, Approximation&& approximation) {
  double largest = 0;
  for (const float tau : taus)
    for (int i = 1; i <= 4000; ++i)
      for (const double sign : {-1.0, 1.0}) {
        const float x = float(sign * limit * tau * i / 4001);
        const double truth = double(tau) * std::tanh(double(x) / tau);
        largest = std::max(largest, std::abs(approximation(tau, x) / truth - 1));
      }
  return largest;
}

// As at a tile's end: with a decay, here 1.
float tiny_approximation(float tau, float x) {
  const Boundary boundary(tau);
  SpeculateTiny sane{boundary.tiny};
  float X[4] = {0, 0, x * boundary.factor.times(1), 0};
  sane.apply(X);
  EXPECT_GT(sane.least, __float_as_uint(sane.tiny.below)) << x << " of " << tau;
  return X[2];
}
// The polynomial's error is a part of what SANE takes, so that entries where it takes little, which
// stay for long, are exact; beside that four roundings: factor, X, the sum, the product.
TEST(Tanh, OfTinyEntries) {
  for (const double part : {0.01, 0.05, 0.1, 0.15, 0.2, 0.25, double(tiny_limit)})
    EXPECT_LT(largest_error(part, tiny_approximation), 1.9e-6 * part * part / 3 + 4 * rounding)
        << part;
}
// A bias would accumulate from tile to tile.
TEST(Tanh, OfTinyEntriesIsUnbiased) {
  for (const float tau : taus) {
    double sum = 0;
    const int count = 4000;
    for (int i = 1; i <= count; ++i) {
      const float decay = float(0.9 + 0.1 * i / count);
      const Boundary boundary(tau);
      SpeculateTiny sane{boundary.tiny};
      const double x = 0.2 * tau * ((i * 379) % count + 1) / count;
      float X[4] = {float(x) * boundary.factor.times(decay), 0, 0, 0};
      sane.apply(X);
      sum += X[0] / (double(tau) * std::tanh(double(float(x)) * decay / tau)) - 1;
    }
    EXPECT_LT(std::abs(sum / count), 0.2 * rounding) << tau;
  }
}
TEST(Tanh, EntriesThatAreNotTinyAreDetected) {
  for (const float tau : {1e-30f, 1e-5f, 1.2e-4f, 0.7f, 150.0f, 9e7f, 1e9f, 1e30f})
    for (const float part : {0.3126f, 0.5f, 1.3f, 100.0f, 1e6f, INFINITY, NAN})
      for (int i = 0; i < 4; ++i) {
        const Boundary boundary(tau);
        SpeculateTiny sane{boundary.tiny};
        float X[4] = {};
        X[i] = part * tau * boundary.factor.times(1);
        sane.apply(X);
        EXPECT_LE(sane.least, __float_as_uint(sane.tiny.below)) << part << " of " << tau;
      }
}
TEST(Tanh, WithoutTauDecaysAreUnchanged) { EXPECT_EQ(Boundary(0).factor.times(0.7f), 0.7f); }
TEST(Tanh, OfEntriesBelowAQuarter) {
  const auto approximation = [](float tau, float x) { return Tanh(tau).below_quarter(x); };
  EXPECT_LT(largest_error(0.25, approximation), 5e-9 + 1.1 * rounding);
}
// Beside the last roundings, of the sum and the product, errors of the quotient count by its size
// relative to 1: 0.2 at 0.9 tau, 0.8 at 1.7 tau.
TEST(Tanh, OfMediumEntries) {
  const auto approximation = [](float tau, float x) {
    const Tanh tanh(tau);
    return tanh.below_medium(x, tanh.square(x));
  };
  EXPECT_LT(largest_error(0.9, approximation), 2.1e-8 + 3 * rounding);
  EXPECT_LT(largest_error(1.7, approximation), 2.1e-8 + 5 * rounding);
}
TEST(Tanh, OfAnyEntries) {
  const auto approximation = [](float tau, float x) { return Tanh(tau)(x); };
  EXPECT_LT(largest_error(0.9, approximation), 1.8e-8 + 3 * rounding);  // 1 + .., times x, and u's
  EXPECT_LT(largest_error(30, approximation), 1.8e-8 + 4 * rounding);
}
// As at a tile's end for a warp that has had larger entries than tiny ones: X and 1 / g are rounded
// too.
float larger_approximation(float tau, float x, bool medium) {
  const Boundary boundary(tau);
  SpeculateMedium sane{Tanh(tau, boundary.tiny.inverse_g())};
  const float X = x * boundary.factor.times(1);
  float all[4] = {0, X, 0, 0};
  sane.apply(all);
  EXPECT_EQ(sane.largest < __float_as_int(1.7f * 1.7f), medium) << x << " of " << tau;
  return medium ? all[1] : sane.tanh(X);
}
TEST(Tanh, OfLargerEntriesAtTheEndOfATile) {
  const auto medium = [](float tau, float x) { return larger_approximation(tau, x, true); };
  EXPECT_LT(largest_error(0.25, medium), 4e-9 + 5 * rounding);
  EXPECT_LT(largest_error(1.69, medium), 2.1e-8 + 8 * rounding);
  for (const float tau : taus)
    for (const float part : {1.71f, -2.0f, 9.0f, 1e3f}) {
      const double truth = double(tau) * std::tanh(double(part * tau) / tau);
      EXPECT_LT(std::abs(larger_approximation(tau, part * tau, false) / truth - 1), 4 * rounding)
          << part;
    }
}
}  // namespace
}  // namespace deltasane::kernel::cuda
