#include "kernel/activation/activation.h"

#include "base/cat.h"
#include "kernel/activation/reference.h"
#include "kernel/rows/row_test_case.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

constexpr Activation all_activations[] = {Activation::tanh, Activation::sigmoid,
                                          Activation::squared_relu};
const char* name_of_activation(Activation activation) {
  return activation == Activation::tanh      ? "tanh"
         : activation == Activation::sigmoid ? "sigmoid"
                                             : "relu^2";
}

class Activations : public RowTest {};

TEST_P(Activations, AreTheDefinition) {
  const int64_t rows = 3, channels = 333;
  const Vector<double> x = normal_numbers(rows * channels, 5, 1);
  for (const Activation activation : all_activations) {
    Vector<float> found = as<float>(x), plain = found;
    Vector<double> truth = x;
    activate(activation, {found.data(), {rows, channels}}, cpu());
    for (float& value : plain) value = reference::activate(activation, value);
    for (double& value : truth) value = reference::activate(activation, value);
    expect_close(name_of_activation(activation), found, plain, truth);
  }
}

// A model in the beginning of its training has low ranks near zero.
TEST_P(Activations, TanhKeepsTheDigitsOfSmallNumbers) {
  Vector<float> x(4096), found;
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float((i % 2 ? -1 : 1) * std::pow(10, -8 + 9 * double(i) / double(x.size())));
  found = x;
  activate(Activation::tanh, {found.data(), {1, int64_t(x.size())}}, cpu());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(double(found[i]) / std::tanh(double(x[i])) - 1));
  RecordProperty("worst", cat(worst));
  EXPECT_LT(worst, 4e-7);  // docs/numerics.md
}

TEST_P(Activations, GradientsAreTheirDerivatives) {
  const Vector<double> x = normal_numbers(3 * 50, 2, 1);
  const auto check = [&](Activation activation, auto function, auto derivative) {
    Vector<float> y, dy(x.size(), 1.0f), plain;
    Vector<double> truth;
    for (const double value : x) {
      y.push_back(function(float(value)));
      plain.push_back(derivative(float(value)));
      truth.push_back(derivative(value));
      const double at_y = reference::derivative(activation, double(function(value)));
      EXPECT_NEAR(at_y, derivative(value), 1e-12) << "the definition";
    }
    activate_backward(activation, {y.data(), {3, 50}}, {dy.data(), {3, 50}}, cpu());
    expect_close(name_of_activation(activation), dy, plain, truth);
  };
  check(
      Activation::tanh, [](auto v) { return std::tanh(v); },
      [](auto v) { return 1 - std::tanh(v) * std::tanh(v); });
  const auto sigmoid = [](auto v) { return 1 / (1 + std::exp(-v)); };
  check(Activation::sigmoid, sigmoid, [&](auto v) { return sigmoid(v) * (1 - sigmoid(v)); });
  check(
      Activation::squared_relu, [](auto v) { return v > 0 ? v * v : decltype(v)(0); },
      [](auto v) { return v > 0 ? 2 * v : decltype(v)(0); });
}

INSTANTIATE_TEST_SUITE_P(Isas, Activations, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
