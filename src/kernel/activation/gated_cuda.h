// Rows multiplied by an activation of other rows (gated.h) on a GPU, and the gradients:
//
//     y = act(gate) x
//
// x, y   (rows, C), packed; y may be the memory of x
// gate   (rows, C), `gate_step` numbers from row to row
//
// Real is float or bf16, arithmetic is float. reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/activation/gated.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct GatedRows {
  GateActivation activation;
  int64_t rows, channels;
  const Real* gate;
  int64_t gate_step;
  const Real* x;
  Real* y;
};
template <class Real>
void multiply_by_gate(const GatedRows<Real>& op, const Gpu& gpu);

// All of `count` numbers, packed. dgate and dx are overwritten; either may be the memory of dy.
template <class Real>
struct GatedRowsGradient {
  GateActivation activation;
  int64_t count;
  const Real *gate, *x, *dy;
  Real *dgate, *dx;
  Real* y = nullptr;  // act(gate) x again; null: not wanted
};
template <class Real>
void multiply_by_gate_backward(const GatedRowsGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
