// The definition of the decay, of its logarithm and of its gradient, in float or double. x = z + bias.
#pragma once

#include <cmath>
#include <optional>

#include "kernel/activation/reference.h"

namespace deltasane::kernel::reference {

template <class Real>
Real log_decay(Real x, Real rate, std::optional<Real> bound) {
  if (bound) return *bound * sigmoid(rate * x);
  const Real softplus = std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x)));
  return -rate * softplus;
}

template <class Real>
Real decay(Real x, Real rate, std::optional<Real> bound) {
  return std::exp(log_decay(x, rate, bound));
}

// Derivatives of log w with respect to x and to log rate.
template <class Real>
struct DecayDerivatives {
  Real x, log_rate;
};
template <class Real>
DecayDerivatives<Real> log_decay_derivatives(Real x, Real rate, std::optional<Real> bound) {
  if (bound) {
    const Real s = sigmoid(rate * x), slope = *bound * s * (1 - s) * rate;
    return {slope, slope * x};
  }
  return {-rate * sigmoid(x), log_decay(x, rate, bound)};
}

// Of w.
template <class Real>
DecayDerivatives<Real> decay_derivatives(Real x, Real rate, std::optional<Real> bound) {
  const Real w = decay(x, rate, bound);
  const DecayDerivatives<Real> by = log_decay_derivatives(x, rate, bound);
  return {w * by.x, w * by.log_rate};
}

}  // namespace deltasane::kernel::reference
