// The definition of RoPE for one head of one token, in float or double.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

inline double rope_angle(int64_t position, int64_t i, int64_t rotary, double theta) {
  return double(position) * std::pow(theta, -2.0 * double(i) / double(rotary));
}

template <class Real>
void rope(std::span<Real> x, int64_t position, int64_t rotary, double theta) {
  for (int64_t i = 0; i < rotary / 2; ++i) {
    const double angle = rope_angle(position, i, rotary, theta);
    const Real c = Real(std::cos(angle)), s = Real(std::sin(angle));
    Real &a = x[size_t(i)], &b = x[size_t(i + rotary / 2)];
    const Real first = a * c - b * s;
    b = b * c + a * s;
    a = first;
  }
}

}  // namespace deltasane::kernel::reference
