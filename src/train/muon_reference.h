// The definition of Muon's Newton-Schulz iteration and of both optimisers' updates, in float or
// double, one tensor at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "train/muon.h"

namespace deltasane::train::reference {

template <class Real>
void newton_schulz(std::span<Real> u, int64_t rows, int64_t columns) {
  const bool turned = rows > columns;
  const size_t n = size_t(turned ? columns : rows), m = size_t(turned ? rows : columns);
  Real squares = 0;
  for (const Real value : u) squares += value * value;
  const Real divisor = std::sqrt(squares) + Real(1e-7);
  std::vector<Real> x(n * m);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) x[i * m + j] = u[turned ? j * n + i : i * m + j] / divisor;
  for (int step = 0; step < newton_schulz_steps; ++step) {
    std::vector<Real> A(n * n), B(n * n), next(n * m);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < m; ++k) A[i * n + j] += x[i * m + k] * x[j * m + k];
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        Real sum = 0;
        for (size_t k = 0; k < n; ++k) sum += A[i * n + k] * A[k * n + j];
        B[i * n + j] = Real(newton_schulz_b) * A[i * n + j] + Real(newton_schulz_c) * sum;
      }
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < m; ++j) {
        Real sum = Real(newton_schulz_a) * x[i * m + j];
        for (size_t k = 0; k < n; ++k) sum += B[i * n + k] * x[k * m + j];
        next[i * m + j] = sum;
      }
    x = next;
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) u[turned ? j * n + i : i * m + j] = x[i * m + j];
}

// momentum <- mu momentum + g;  w <- (1 - rate decay) w - rate scale NS(g + mu momentum)
template <class Real>
void muon_step(std::span<Real> w, std::span<const Real> g, std::span<Real> momentum, int64_t rows,
               int64_t columns, Real rate, Real decay, Real mu) {
  std::vector<Real> u(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    momentum[i] = mu * momentum[i] + g[i];
    u[i] = g[i] + mu * momentum[i];
  }
  newton_schulz<Real>(u, rows, columns);
  const Real scale = Real(0.2) * std::sqrt(Real(std::max(rows, columns)));
  for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] - rate * decay * w[i] - rate * scale * u[i];
}

// m, v: running means of g and g^2, corrected for their start at 0;
// w <- (1 - rate decay) w - rate m / (sqrt(v) + eps)
template <class Real>
void adamw_step(std::span<Real> w, std::span<const Real> g, std::span<Real> m, std::span<Real> v,
                int64_t step, Real rate, Real decay, Real beta1, Real beta2, Real eps) {
  for (size_t i = 0; i < w.size(); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    const Real mean = m[i] / (1 - std::pow(beta1, Real(step)));
    const Real square = v[i] / (1 - std::pow(beta2, Real(step)));
    w[i] = w[i] - rate * decay * w[i] - rate * mean / (std::sqrt(square) + eps);
  }
}

}  // namespace deltasane::train::reference
