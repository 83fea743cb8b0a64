// The definition of the row operations' gradients, one row at a time, in float or double.
//
// Read rwkv7.h first. "Added to" means that the result is added to what is there: parameters are
// shared by all rows, and the residual stream by all operations.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

template <class Real>
struct LayerNormGradient {
  std::span<const Real> x, weight;
  Real eps;
  std::span<const Real> dy;
  std::span<Real> dx, dweight, dbias;  // added to
};
template <class Real>
void layer_norm_backward(const LayerNormGradient<Real>& op);

template <class Real>
struct TimeMixInputsGradient {
  int64_t head_size;
  std::span<const Real> w, a, k, v, gate, v_first;  // as time_mix_inputs was given them
  std::span<const Real> w0, a0, v0, k_k, k_a;
  std::span<Real> dw, da, dk, dv;  // those of the results; become those of what was given
  std::span<const Real> db;
  std::span<Real> dgate;                      // overwritten; empty in the first layer
  std::span<Real> dv_first;                   // added to; empty in the first layer
  std::span<Real> dw0, da0, dv0, dk_k, dk_a;  // added to
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
