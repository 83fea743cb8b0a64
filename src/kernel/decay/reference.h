// The definition of the decay, in float or double. x = z + bias.
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

}  // namespace deltasane::kernel::reference
