// The definition of the layer's row operations, in float or double.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

template <class Real>
void layer_norm(std::span<const Real> x, std::span<const Real> weight, std::span<const Real> bias,
                Real eps, std::span<Real> y);

template <class Real>
struct TimeMixInputs {
  int64_t head_size;
  std::span<Real> w, a, b, k, v;
  std::span<const Real> gate, v_first;  // empty in the first layer
  std::span<const Real> w0, a0, v0, k_k, k_a;
};
template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op);

template <class Real>
struct TimeMixOutput {
  int64_t head_size;
  std::span<Real> y;
  std::span<const Real> r, k, v, g, weight, bias, r_k;
  Real eps;
};
template <class Real>
void time_mix_output(const TimeMixOutput<Real>& op);

}  // namespace deltasane::kernel::reference
