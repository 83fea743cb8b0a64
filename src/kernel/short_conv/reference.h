// The definition of the short convolution of one channel, in float or double.
#pragma once

#include <span>

#include "kernel/activation/reference.h"

namespace deltasane::kernel::reference {

// x: the channel's inputs from the beginning of the stream; weight: (taps).
template <class Real>
Real short_conv(std::span<const Real> x, std::span<const Real> weight, size_t t) {
  Real sum = 0;
  for (size_t j = 0; j < weight.size(); ++j)
    if (t + 1 + j >= weight.size()) sum += weight[j] * x[t + 1 + j - weight.size()];
  return sum * sigmoid(sum);
}

}  // namespace deltasane::kernel::reference
