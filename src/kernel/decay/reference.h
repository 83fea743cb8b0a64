// The definition of the decay and of its gradient, in float or double. x = z + bias.
#pragma once

#include <cmath>
#include <optional>

#include "kernel/activation/reference.h"

namespace deltasane::kernel::reference {

template <class Real>
Real decay(Real x, Real rate, std::optional<Real> bound) {
  if (bound) return std::exp(*bound * sigmoid(rate * x));
  const Real softplus = std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x)));
  return std::exp(-rate * softplus);
}

// Derivatives of w with respect to x and to log rate.
template <class Real>
struct DecayDerivatives {
  Real x, log_rate;
};
template <class Real>
DecayDerivatives<Real> decay_derivatives(Real x, Real rate, std::optional<Real> bound) {
  const Real w = decay(x, rate, bound);
  if (bound) {
    const Real s = sigmoid(rate * x), slope = w * *bound * s * (1 - s) * rate;
    return {slope, slope * x};
  }
  const Real softplus = std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x)));
  return {-w * rate * sigmoid(x), -w * rate * softplus};
}

}  // namespace deltasane::kernel::reference
