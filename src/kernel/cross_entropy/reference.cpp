#include "kernel/cross_entropy/reference.h"

#include <algorithm>
#include <cmath>

namespace deltasane::kernel::reference {

template <class Real>
Real cross_entropy(std::span<Real> logits, int32_t target, Real weight, Real wrap) {
  const auto top = std::max_element(logits.begin(), logits.end());
  const Real largest = *top, wanted = logits[size_t(target)];
  Real sum = 0;
  for (const Real x : logits) sum += std::exp(x - largest);
  for (Real& x : logits) x = weight * std::exp(x - largest) / sum;
  logits[size_t(target)] -= weight;
  *top += weight * wrap * largest;
  return weight * (std::log(sum) + largest - wanted);
}

template float cross_entropy(std::span<float>, int32_t, float, float);
template double cross_entropy(std::span<double>, int32_t, double, double);

}  // namespace deltasane::kernel::reference
