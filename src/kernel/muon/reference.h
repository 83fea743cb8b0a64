// The definition of Muon's Newton-Schulz iteration and of its step, in float or double, one matrix.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/muon/muon.h"

namespace deltasane::kernel::reference {

template <class Real>
void newton_schulz(std::span<Real> u, int64_t rows, int64_t columns) {
  const bool transposed = rows > columns;
  const size_t n = size_t(transposed ? columns : rows), m = size_t(transposed ? rows : columns);
  Real squares = 0;
  for (const Real value : u) squares += value * value;
  const Real divisor = std::sqrt(squares) + Real(1e-7);
  std::vector<Real> x(n * m);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) x[i * m + j] = u[transposed ? j * n + i : i * m + j] / divisor;
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
    for (size_t j = 0; j < m; ++j) u[transposed ? j * n + i : i * m + j] = x[i * m + j];
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

}  // namespace deltasane::kernel::reference
