#include "kernel/sane/tau.h"

#include <numbers>

#include "kernel/rows/row_test_case.h"
#include "kernel/sane/reference.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

TEST(Tau, IsTheDefinition) {
  for (const double alpha : {0.5, 3.0, 10.0})
    for (const double z : normal_numbers(1000, 6, 1)) {
      const double truth = reference::tau_of(z, alpha);
      EXPECT_NEAR(tau_of(z, alpha), truth, 8e-16 * truth) << z;
    }
  // Where exp(z) overflows, softplus(z) is z.
  EXPECT_EQ(tau_of(1000, 3), 3001);
  EXPECT_EQ(tau_of(-1000, 3), 1);
}

TEST(Tau, WithoutWeightsIsThatOfZero) {
  for (const double alpha : {1.0, 3.0, 10.0}) {
    EXPECT_EQ(tau_at_zero(alpha), alpha * std::numbers::ln2 + 1);
    EXPECT_EQ(float(tau_at_zero(alpha)), float(tau_of(0, alpha)));
    EXPECT_DOUBLE_EQ(alpha_at_zero(tau_at_zero(alpha)), alpha);
  }
}

TEST(Tau, DerivativeIsThatOfCentralDifferences) {
  constexpr double alpha = 3;
  Vector<double> z = normal_numbers(50, 4, 2);
  const Vector<double> dtau = normal_numbers(50, 1, 3);
  Vector<double> dz;
  for (size_t i = 0; i < z.size(); ++i) {
    dz.push_back(dtau[i] * tau_derivative(z[i], alpha));
    EXPECT_NEAR(dz[i], dtau[i] * reference::tau_derivative(z[i], alpha), 1e-14);
  }
  expect_gradient("z", z, dz, [&] {
    double loss = 0;
    for (size_t i = 0; i < z.size(); ++i) loss += dtau[i] * reference::tau_of(z[i], alpha);
    return loss;
  });
}

TEST(Tau, RowsAreRoundedOnce) {
  constexpr double alpha = 2.5;
  const auto z = as<float>(normal_numbers(101 * 3, 6, 4));
  const Vector<float> alphas{1.0f, 2.5f, 10.0f};
  Vector<float> one(z.size(), NAN), per_head = one, in_place = z, at_zero(6, NAN);
  tau_forward(z, alpha, one);
  tau_forward_per_head(z, alphas, per_head);
  tau_forward(in_place, alpha, in_place);
  for (size_t i = 0; i < z.size(); ++i) {
    EXPECT_EQ(one[i], float(tau_of(double(z[i]), alpha)));
    EXPECT_EQ(per_head[i], float(tau_of(double(z[i]), double(alphas[i % 3]))));
  }
  EXPECT_EQ(in_place, one);
  tau_forward_per_head({}, alphas, at_zero);
  for (size_t i = 0; i < at_zero.size(); ++i)
    EXPECT_EQ(at_zero[i], float(tau_at_zero(double(alphas[i % 3]))));
  tau_forward({}, alpha, at_zero);
  for (const float tau : at_zero) EXPECT_EQ(tau, float(tau_at_zero(alpha)));
}

TEST(Tau, GradientIsTheDefinition) {
  constexpr double alpha = 3;
  const Vector<double> z = normal_numbers(300, 6, 5), dtau = normal_numbers(300, 1, 6);
  Vector<float> found = as<float>(dtau), plain;
  Vector<double> truth;
  for (size_t i = 0; i < z.size(); ++i) {
    plain.push_back(float(dtau[i]) * reference::tau_derivative(float(z[i]), float(alpha)));
    truth.push_back(dtau[i] * reference::tau_derivative(z[i], alpha));
  }
  tau_backward(as<float>(z), alpha, found);
  expect_close("dz", found, plain, truth);
}

}  // namespace
}  // namespace deltasane::kernel
