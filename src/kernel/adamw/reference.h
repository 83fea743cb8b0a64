// The definition of a step of AdamW, in float or double, one tensor.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

// m, v: running means of g and g^2, corrected for their start at 0;
// w <- (1 - rate decay) w - rate m / (sqrt(v) + eps)
template <class Real>
void adamw_step(std::span<Real> w, std::span<const Real> g, std::span<Real> m, std::span<Real> v,
                int64_t step, Real rate, Real decay, Real beta1, Real beta2, Real eps) {
  for (size_t i = 0; i < w.size(); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    const Real mean = m[i] / (1 - std::pow(beta1, Real(step)));
    const Real square = v[i] / (1 - std::pow(beta2, Real(step)));
    w[i] = w[i] - rate * decay * w[i] - rate * mean / (std::sqrt(square) + eps);
  }
}

}  // namespace deltasane::kernel::reference
