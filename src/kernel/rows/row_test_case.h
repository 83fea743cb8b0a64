// What the tests of operators on rows share on the CPU: random numbers, a fixture for every
// instruction set, the judgement, and gradients by central differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "kernel/cpu_device.h"
#include "kernel/isa_dispatch.h"
#include "tensor/closeness.h"

namespace deltasane::kernel::row_test {

template <class Real>
using Vector = std::vector<Real>;

inline Vector<double> normal_numbers(int64_t count, double scale, uint64_t stream) {
  Random random(11, stream);
  Vector<double> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(double(float(scale * random.normal())));
  return out;
}

template <class Real, class From>
Vector<Real> as(const Vector<From>& x) {
  return {x.begin(), x.end()};
}

inline double dot(const Vector<double>& a, const Vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void expect_close(const char* what, const Vector<float>& found, const Vector<float>& plain,
                         const Vector<double>& truth) {
  const Closeness result = closeness(found, plain, truth);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

// d loss / d x against central differences, extrapolated; the bound is that of docs/numerics.md.
inline void expect_gradient(const char* what, Vector<double>& x, const Vector<double>& dx,
                            const std::function<double()>& loss) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    double scale = 0;
    const auto difference = [&](double h) {
      x[i] = kept + h;
      const double up = loss();
      x[i] = kept - h;
      const double down = loss();
      x[i] = kept;
      scale = std::abs(up) + std::abs(down) + 10;
      return (up - down) / (2 * h);
    };
    const double whole = difference(1e-3), half = difference(5e-4);
    const double allowed = std::abs(whole - half) / 8 + 8 * 2.3e-16 * scale / 5e-4 + 1e-11;
    EXPECT_NEAR(dx[i], half + (half - whole) / 3, allowed) << what << " " << i;
  }
}

class RowTest : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool threads_{2};
  Cpu cpu() { return {threads_, GetParam()}; }
  void SetUp() override {
    if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  }
};

inline std::string isa_name(const testing::TestParamInfo<Isa>& isa) {
  return std::string(name_of(isa.param));
}

}  // namespace deltasane::kernel::row_test
