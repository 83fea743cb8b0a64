// The definition itself: its forward against explicit matrices, its backward against central
// differences in double with random cotangents.
#include "kernel/delta_rule/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernel/delta_rule/bench/problem.h"

namespace deltasane::kernel {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix zeros(int64_t rows, int64_t columns) {
  return Matrix(size_t(rows), std::vector<double>(size_t(columns), 0.0));
}

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix out = zeros(int64_t(a.size()), int64_t(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b[0].size(); ++j) out[i][j] += a[i][k] * b[k][j];
  return out;
}

// S <- S M + K with explicit M and K, SANE by its formula, positions counted from the start of the
// sequence: the paper's equations, sharing nothing with the code under test.
struct Explicit {
  std::vector<Matrix> y;  // (head)(time, value) of one sequence
  std::vector<Matrix> state;
};

Explicit explicit_recurrence(Problem<double>& p, int64_t b) {
  const ProblemShape& n = p.shape;
  const DeltaRule<double> op = p.op();
  Explicit out;
  for (int64_t h = 0; h < n.heads; ++h) {
    Matrix S = zeros(n.values, n.keys), y = zeros(n.time, n.values);
    for (int64_t i = 0; i < n.values; ++i)
      for (int64_t j = 0; j < n.keys; ++j) S[size_t(i)][size_t(j)] = op.initial(b, h, i, j);
    int64_t chunk_number = 0;
    bool padded_chunk = false;
    for (int64_t t = 0; t < n.time; ++t) {
      const bool padding = n.padding && p.present.view()(b, t) == 0;
      padded_chunk = padded_chunk || padding;
      if (!padding) {
        Matrix M = zeros(n.keys, n.keys), K = zeros(n.values, n.keys);
        for (int64_t x = 0; x < n.keys; ++x)
          for (int64_t j = 0; j < n.keys; ++j) {
            const double same = x == j ? 1.0 : 0.0;
            const double kk = op.k(b, t, h, x) * op.k(b, t, h, j);
            switch (n.rule) {
              case Rule::generalized:
                M[size_t(x)][size_t(j)] =
                    same * op.w(b, t, h, j) + op.a(b, t, h, x) * op.b(b, t, h, j);
                break;
              case Rule::deltanet:
                M[size_t(x)][size_t(j)] = same - op.beta(b, t, h) * kk;
                break;
              case Rule::gated_deltanet:
                M[size_t(x)][size_t(j)] = op.w(b, t, h) * (same - op.beta(b, t, h) * kk);
                break;
              case Rule::kda:
                M[size_t(x)][size_t(j)] = op.w(b, t, h, x) * (same - op.beta(b, t, h) * kk);
                break;
            }
          }
        const double strength = n.rule == Rule::generalized ? 1.0 : op.beta(b, t, h);
        for (int64_t i = 0; i < n.values; ++i)
          for (int64_t j = 0; j < n.keys; ++j)
            K[size_t(i)][size_t(j)] = strength * op.v(b, t, h, i) * op.k(b, t, h, j);
        S = times(S, M);
        for (int64_t i = 0; i < n.values; ++i)
          for (int64_t j = 0; j < n.keys; ++j) {
            S[size_t(i)][size_t(j)] += K[size_t(i)][size_t(j)];
            y[size_t(t)][size_t(i)] += S[size_t(i)][size_t(j)] * op.r(b, t, h, j);
          }
      }
      if ((n.position + n.stagger * b + t) % n.chunk != n.chunk - 1) continue;
      const bool wanted = !n.padding || p.neutralize.view()(b, chunk_number) == 1;
      if (n.tau_high > 0 && wanted && !padded_chunk)
        for (auto& row : S)
          for (double& s : row) {
            const double tau = op.tau(b, chunk_number, h);
            s = tau * std::tanh(s / tau);
          }
      padded_chunk = false;
      ++chunk_number;
    }
    out.y.push_back(y);
    out.state.push_back(S);
  }
  return out;
}

std::vector<ProblemShape> small_shapes() {
  std::vector<ProblemShape> shapes;
  for (const Rule rule : {Rule::generalized, Rule::deltanet, Rule::gated_deltanet, Rule::kda})
    for (const auto& [low, high] : {std::pair{1.4, 1.6}, {7.0, 9.0}, {0.0, 0.0}})
      for (const bool padding : {false, true}) {
        ProblemShape shape{
            .rule = rule, .batch = 2, .time = 21, .heads = 2, .values = 5, .keys = 4};
        shape.tau_low = low, shape.tau_high = high, shape.padding = padding;
        shape.position = 9;  // both sequences cross a boundary, and end inside a chunk
        shapes.push_back(shape);
      }
  return shapes;
}

TEST(DeltaRuleDefinition, EqualsExplicitMatrices) {
  uint64_t seed = 100;
  for (const ProblemShape& shape : small_shapes()) {
    Problem<double> p(shape, seed++);
    reference::delta_rule(p.op());
    for (int64_t b = 0; b < shape.batch; ++b) {
      const Explicit expected = explicit_recurrence(p, b);
      for (int64_t h = 0; h < shape.heads; ++h)
        for (int64_t i = 0; i < shape.values; ++i) {
          for (int64_t t = 0; t < shape.time; ++t)
            EXPECT_NEAR(p.y.view()(b, t, h, i), expected.y[size_t(h)][size_t(t)][size_t(i)], 1e-12);
          for (int64_t j = 0; j < shape.keys; ++j)
            EXPECT_NEAR(p.final_state.view()(b, h, i, j),
                        expected.state[size_t(h)][size_t(i)][size_t(j)], 1e-12);
        }
    }
  }
}

// <dy, y> + <dfinal, final_state>, and the sum of its terms' magnitudes.
std::pair<double, double> loss(Problem<double>& p) {
  reference::delta_rule(p.op());
  double sum = 0, size = 0;
  const auto add = [&](const Tensor<double>& gradient, const Tensor<double>& output) {
    for (int64_t i = 0; i < output.elements(); ++i) {
      sum += gradient[i] * output[i];
      size += std::abs(gradient[i] * output[i]);
    }
  };
  add(p.dy, p.y);
  add(p.dfinal, p.final_state);
  return {sum, size};
}

// Every element of one input. The tolerance follows from the arithmetic: the truncation error is at
// most the difference between the steps h and h/2, the rounding error 8 units of the loss over h.
void expect_gradient(Problem<double>& p, Tensor<double>& input, const Tensor<double>& gradient,
                     const std::string& what) {
  ASSERT_EQ(input.elements(), gradient.elements()) << what;
  const double h = 1e-3;
  for (int64_t i = 0; i < input.elements(); ++i) {
    const double x = input[i];
    double size = 0;
    const auto at = [&](double value) {
      input[i] = value;
      const auto [sum, terms] = loss(p);
      size = std::max(size, terms);
      return sum;
    };
    const double wide = (at(x + h) - at(x - h)) / (2 * h);
    const double narrow = (at(x + h / 2) - at(x - h / 2)) / h;
    input[i] = x;
    const double extrapolated = (4 * narrow - wide) / 3;
    const double allowed = std::abs(wide - narrow) / 8 + 8 * 2.2e-16 * size / h + 1e-11;
    EXPECT_NEAR(gradient[i], extrapolated, allowed) << what << " element " << i;
  }
}

class DeltaRuleGradientOf : public testing::TestWithParam<ProblemShape> {};

TEST_P(DeltaRuleGradientOf, EqualsCentralDifferences) {
  Problem<double> p(GetParam(), 7);
  reference::delta_rule_backward(p.op(), p.gradient());
  const std::pair<const char*, std::pair<Tensor<double>*, Tensor<double>*>> all[] = {
      {"dr", {&p.r, &p.dr}},
      {"dw", {&p.w, &p.dw}},
      {"dk", {&p.k, &p.dk}},
      {"dv", {&p.v, &p.dv}},
      {"da", {&p.a, &p.da}},
      {"db", {&p.b, &p.db}},
      {"dbeta", {&p.beta, &p.dbeta}},
      {"dtau", {&p.tau, &p.dtau}},
      {"dinitial", {&p.initial, &p.dinitial}}};
  for (const auto& [name, tensors] : all) expect_gradient(p, *tensors.first, *tensors.second, name);
}

INSTANTIATE_TEST_SUITE_P(Cases, DeltaRuleGradientOf, testing::ValuesIn(small_shapes()),
                         [](const auto& shape) {
                           const ProblemShape& s = shape.param;
                           return cat(name_of(s.rule), "_tau_", int(s.tau_high),
                                      s.padding ? "_padded" : "");
                         });

}  // namespace
}  // namespace deltasane::kernel
