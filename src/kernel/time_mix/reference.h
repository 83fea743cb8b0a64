// The definition of time_mix_inputs and time_mix_output and of their gradients, one row at a time,
// in float or double. Read time_mix.h first.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/time_mix/key_norm.h"

namespace deltasane::kernel::reference {

template <class Real>
struct TimeMixInputs {
  int64_t head_size;
  std::span<Real> w, a, b, k, v;
  std::span<const Real> gate, v_first;  // empty in the first layer
  std::span<const Real> w0, a0, v0, k_k, k_a;
  KeyNorm key_norm{};
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

template <class Real>
struct TimeMixInputsGradient {
  int64_t head_size;
  std::span<const Real> w, a, k, v, gate, v_first;  // as time_mix_inputs was given them
  std::span<const Real> w0, a0, v0, k_k, k_a;
  std::span<Real> dw, da, dk, dv;  // of the results; become those of the arguments
  std::span<const Real> db;
  std::span<Real> dgate;                      // overwritten; empty in the first layer
  std::span<Real> dv_first;                   // added to; empty in the first layer
  std::span<Real> dw0, da0, dv0, dk_k, dk_a;  // added to
  KeyNorm key_norm{};
};
template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& op);

template <class Real>
struct TimeMixOutputGradient {
  int64_t head_size;
  std::span<const Real> y, r, k, v, g, weight, bias, r_k;  // y: as time_mix_output was given it
  Real eps;
  std::span<Real> dy;                    // of the result; becomes that of y
  std::span<Real> dr, dk, dv, dg;        // overwritten
  std::span<Real> dweight, dbias, dr_k;  // added to
};
template <class Real>
void time_mix_output_backward(const TimeMixOutputGradient<Real>& op);

}  // namespace deltasane::kernel::reference
