// The definition of the token shift with one mix, and of its gradient, in float or double: one
// sequence, (time, C).
#pragma once

#include <cstddef>
#include <span>

namespace deltasane::kernel::reference {

// before: (C); empty: zero
template <class Real>
void token_shift(std::span<const Real> u, std::span<const Real> before, std::span<const Real> mu,
                 std::span<Real> out) {
  const size_t channels = mu.size();
  for (size_t i = 0; i < u.size(); ++i) {
    const Real first = before.empty() ? Real(0) : before[i % channels];
    const Real p = i < channels ? first : u[i - channels];
    out[i] = u[i] + (p - u[i]) * mu[i % channels];
  }
}

// `before` was zero; du and dmu are added to.
template <class Real>
void token_shift_backward(std::span<const Real> u, std::span<const Real> mu,
                          std::span<const Real> dout, std::span<Real> du, std::span<Real> dmu) {
  const size_t channels = mu.size();
  for (size_t i = 0; i < u.size(); ++i) {
    const size_t c = i % channels;
    const Real p = i < channels ? Real(0) : u[i - channels];
    du[i] += dout[i] * (1 - mu[c]);
    if (i >= channels) du[i - channels] += dout[i] * mu[c];
    dmu[c] += dout[i] * (p - u[i]);
  }
}

}  // namespace deltasane::kernel::reference
