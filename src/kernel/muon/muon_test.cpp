// Muon against its definition, and Newton-Schulz against what is known of it.
#include "kernel/muon/muon.h"

#include "base/cat.h"
#include "kernel/muon/reference.h"
#include "kernel/rows/row_test_case.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

TEST(NewtonSchulz, IsTheDefinition) {
  ThreadPool threads(2);
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{24, 24}, {13, 40}, {40, 13}, {64, 16}}) {
    std::vector<float> found = as<float>(normal_numbers(rows * columns, 0.01, 1)), plain = found;
    std::vector<double> truth(found.begin(), found.end());
    newton_schulz({found.data(), {rows, columns}}, {threads});
    reference::newton_schulz<float>(plain, rows, columns);
    reference::newton_schulz<double>(truth, rows, columns);
    expect_close(cat(rows, " x ", columns).c_str(), found, plain, truth);
  }
}

// Eigenvalues of a symmetric matrix, by Jacobi's rotations.
std::vector<double> eigenvalues(std::vector<double> a, size_t n) {
  for (int sweep = 0; sweep < 60; ++sweep)
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
        }
      }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(a[i * n + i]);
  return values;
}

std::vector<double> singular_values(std::span<const float> x, size_t rows, size_t columns) {
  std::vector<double> gram(rows * rows);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < rows; ++j)
      for (size_t k = 0; k < columns; ++k)
        gram[i * rows + j] += double(x[i * columns + k]) * double(x[j * columns + k]);
  std::vector<double> values = eigenvalues(gram, rows);
  for (double& value : values) value = std::sqrt(std::max(value, 0.0));
  return values;
}

// The polynomial acts on each singular value by itself, so the bounds follow from numbers alone.
TEST(NewtonSchulz, SingularValuesEndNearOne) {
  ThreadPool threads(2);
  const auto end_of = [](double s) {
    for (int i = 0; i < newton_schulz_steps; ++i)
      s = s * (newton_schulz_a + s * s * (newton_schulz_b + s * s * newton_schulz_c));
    return s;
  };
  double low = 10, high = 0;  // over all singular values from 0.01 to 1
  for (double s = 0.01; s <= 1; s += 1e-4) {
    low = std::min(low, end_of(s));
    high = std::max(high, end_of(s));
  }
  EXPECT_GT(low, 0.65);
  EXPECT_LT(high, 1.25);
  const size_t rows = 12, columns = 30;
  std::vector<float> x = as<float>(normal_numbers(int64_t(rows * columns), 3, 2));
  double length = 0;
  for (const float value : x) length += double(value) * double(value);
  for (const double s : singular_values(x, rows, columns)) EXPECT_GT(s / std::sqrt(length), 0.01);
  newton_schulz({x.data(), {int64_t(rows), int64_t(columns)}}, {threads});
  for (const double s : singular_values(x, rows, columns)) {
    EXPECT_GT(s, low - 1e-4);
    EXPECT_LT(s, high + 1e-4);
  }
}

TEST(Muon, StepsAreTheDefinition) {
  ThreadPool threads(2);
  constexpr double rate = 0.01, decay = 0.1, mu = 0.95;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{24, 24}, {13, 40}, {40, 13}}) {
    std::vector<double> truth = normal_numbers(rows * columns, 1, 1), tm(truth.size());
    std::vector<float> found = as<float>(truth), plain = found, fm(found.size()), pm(found.size());
    for (uint64_t step = 1; step <= 3; ++step) {
      const std::vector<double> gd = normal_numbers(rows * columns, 0.1, 100 + step);
      const std::vector<float> g = as<float>(gd);
      muon_step({{rate, mu}, decay, rows, columns, found.data(), g.data(), fm.data()}, {threads});
      reference::muon_step<float>(plain, g, pm, rows, columns, float(rate), float(decay),
                                  float(mu));
      reference::muon_step<double>(truth, gd, tm, rows, columns, rate, decay, mu);
      expect_close("w", found, plain, truth);
      expect_close("momentum", fm, pm, tm);
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel
