// The definition of the RMS norm and of the L2 norm of one head and of their gradients, in float or
// double.
#pragma once

#include <cmath>
#include <span>

namespace deltasane::kernel::reference {

template <class Real>
void rms_norm(std::span<const Real> x, std::span<const Real> weight, Real eps, std::span<Real> y) {
  Real square = 0;
  for (const Real value : x) square += value * value / Real(x.size());
  for (size_t c = 0; c < x.size(); ++c) y[c] = x[c] / std::sqrt(square + eps) * weight[c];
}

template <class Real>
void l2_norm(std::span<Real> x, Real eps, Real scale) {
  Real square = 0;
  for (const Real value : x) square += value * value;
  for (Real& value : x) value = value / std::sqrt(square + eps) * scale;
}

// Through y = x s weight act, s = 1 / sqrt(mean(x^2) + eps), act(c) a factor of each channel.
template <class Real>
struct RmsNormGradient {
  std::span<const Real> x, weight, act;  // act empty: 1
  Real eps;
  std::span<const Real> dy;
  std::span<Real> dx, dweight;  // added to
  std::span<Real> dact;         // overwritten; empty: not wanted
};
template <class Real>
void rms_norm_backward(const RmsNormGradient<Real>& op) {
  const size_t n = op.x.size();
  Real square = 0, along = 0;
  for (const Real value : op.x) square += value * value / Real(n);
  const Real s = 1 / std::sqrt(square + op.eps);
  const auto act = [&](size_t c) { return op.act.empty() ? Real(1) : op.act[c]; };
  for (size_t c = 0; c < n; ++c) along += op.dy[c] * op.weight[c] * act(c) * op.x[c] * s / Real(n);
  for (size_t c = 0; c < n; ++c) {
    op.dx[c] += s * (op.dy[c] * op.weight[c] * act(c) - op.x[c] * s * along);
    op.dweight[c] += op.dy[c] * op.x[c] * s * act(c);
    if (!op.dact.empty()) op.dact[c] = op.dy[c] * op.x[c] * s * op.weight[c];
  }
}

// dy becomes the gradient of x.
template <class Real>
void l2_norm_backward(std::span<const Real> x, Real eps, Real scale, std::span<Real> dy) {
  Real square = 0, along = 0;
  for (const Real value : x) square += value * value;
  const Real s = 1 / std::sqrt(square + eps);
  for (size_t c = 0; c < x.size(); ++c) along += dy[c] * x[c] * s;
  for (size_t c = 0; c < x.size(); ++c) dy[c] = scale * s * (dy[c] - x[c] * s * along);
}

}  // namespace deltasane::kernel::reference
