// Rows multiplied by an activation of other rows (gated.h) on a GPU, in place:
//
//     x = act(gate) x
//
// x      (rows, C), packed
// gate   (rows, C), `gate_step` numbers from row to row
//
// Real is float or bf16, arithmetic is float.
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
  Real* x;
};
template <class Real>
void multiply_by_gate(const GatedRows<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
