// Decays by the function of the GPU kernels: a state is multiplied by hundreds of them, so their
// errors must be small on average too.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/time_mix/cuda_decay.cuh"

namespace deltasane::kernel::cuda {
namespace {

struct Errors {  // in units of the last place of numbers from 1/2 to 1
  double largest = 0, mean = 0;
};
constexpr int gates = 100'000;
Errors errors_of(double first_gate, double last_gate) {
  Errors errors;
  for (int i = 0; i < gates; ++i) {
    const auto gate = float(first_gate + (last_gate - first_gate) * i / gates);
    const float t = -decay_rate * gate;  // rounded, as it is for plain arithmetic
    const double truth = std::exp(double(t));
    const double error = (double(decay_of(gate)) - truth) * 0x1p24;
    errors.largest = std::max(errors.largest, std::abs(error));
    errors.mean += error / gates;
  }
  return errors;
}

TEST(Decays, AreWithinAUnit) { EXPECT_LT(errors_of(0, 1).largest, 1); }
// The mean of n rounding errors is about 0.29 units over the root of n. What remains is the
// polynomial's own error. Slow decays are multiplied most often.
TEST(Decays, AreUnbiased) {
  const double allowed = 6e-10 * 0x1p24 + 4 * 0.29 / std::sqrt(double(gates));
  EXPECT_LT(std::abs(errors_of(0, 1).mean), allowed);
  EXPECT_LT(std::abs(errors_of(0, 0.05).mean), allowed);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
