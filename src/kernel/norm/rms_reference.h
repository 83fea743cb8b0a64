// The definition of the RMS norm and of the L2 norm of one head, in float or double.
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

}  // namespace deltasane::kernel::reference
