// The toy's arithmetic on vectors, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace deltasane::toy {

using Vector = std::vector<double>;

// matrix (rows, columns) times x (columns).
template <class Real>
Vector product(std::span<const Real> matrix, const Vector& x) {
  Vector y(matrix.size() / x.size());
  for (size_t i = 0; i < y.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) y[i] += double(matrix[i * x.size() + j]) * x[j];
  return y;
}

inline void add(Vector& x, const Vector& more) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
}

inline double root_mean_square(const Vector& x) {
  double squares = 1e-6;
  for (const double v : x) squares += v * v / double(x.size());
  return std::sqrt(squares);
}

inline Vector normalized(Vector x) {
  const double root = root_mean_square(x);
  for (double& v : x) v /= root;
  return x;
}

inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace deltasane::toy
