// The definition of SANE's tau and of its derivative, in float or double.
#pragma once

#include <cmath>

namespace deltasane::kernel::reference {

// alpha softplus(z) + 1
template <class Real>
Real tau_of(Real z, Real alpha) {
  using std::exp, std::log1p;  // or those of Real
  return alpha * log1p(exp(z)) + 1;
}

// alpha sigmoid(z)
template <class Real>
Real tau_derivative(Real z, Real alpha) {
  return alpha / (1 + std::exp(-z));
}

}  // namespace deltasane::kernel::reference
