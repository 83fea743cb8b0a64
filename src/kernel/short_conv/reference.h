// The definition of the short convolution of one channel and of its gradient, in float or double.
#pragma once

#include <span>

#include "kernel/activation/reference.h"

namespace deltasane::kernel::reference {

// x: the channel's inputs from the beginning of the stream; weight: (taps).
template <class Real>
Real short_conv_sum(std::span<const Real> x, std::span<const Real> weight, size_t t) {
  Real sum = 0;
  for (size_t j = 0; j < weight.size(); ++j)
    if (t + 1 + j >= weight.size()) sum += weight[j] * x[t + 1 + j - weight.size()];
  return sum;
}

template <class Real>
Real short_conv(std::span<const Real> x, std::span<const Real> weight, size_t t) {
  return gate_of(GateActivation::silu, short_conv_sum(x, weight, t));
}

// dx and dweight are added to.
template <class Real>
void short_conv_backward(std::span<const Real> x, std::span<const Real> weight,
                         std::span<const Real> dy, std::span<Real> dx, std::span<Real> dweight) {
  for (size_t t = 0; t < x.size(); ++t) {
    const Real dsum =
        dy[t] * gate_derivative(GateActivation::silu, short_conv_sum(x, weight, t));
    for (size_t j = 0; j < weight.size(); ++j) {
      if (t + 1 + j < weight.size()) continue;
      const size_t from = t + 1 + j - weight.size();
      dx[from] += weight[j] * dsum;
      dweight[j] += x[from] * dsum;
    }
  }
}

}  // namespace deltasane::kernel::reference
