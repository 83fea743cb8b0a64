// RMS norm of rows or of heads, with or without a gate, and the L2 norm of heads (rms.h) on a GPU.
// In and Out are float or bf16; weights and arithmetic are float.
//
// x, y, gate   (rows, heads size), with their own number of elements from row to row; y may be the
//              memory of x
// weight       (size)
//
// Gradients: heads_cuda/rms_backward.h.
// rms_reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/activation/gated.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class In, class Out>  // (float, float), (float, bf16), (bf16, bf16), (bf16, float)
struct RmsNorm {
  int64_t rows = 0, heads = 1, size = 0;
  const In* x = nullptr;
  int64_t x_step = 0;
  const float* weight = nullptr;
  float eps = 0;
  Out* y = nullptr;
  int64_t y_step = 0;
  bool add = false;  // y += ...
  const In* gate = nullptr;  // y = ... act(gate + gate_bias); null: none
  int64_t gate_step = 0;
  const float* gate_bias = nullptr;  // (heads size); null: none
  GateActivation activation = GateActivation::silu;
  const uint8_t* present = nullptr;  // (rows): where it is 0, y is 0; null: all 1. Without add
};
template <class In, class Out>
void rms_norm(const RmsNorm<In, Out>& op, const Gpu& gpu);

// Two packed matrices, each with a scale of its own; y may be the memory of x.
template <class Real>
struct L2Norms {
  int64_t rows = 0, heads = 0, size = 0;
  float eps = 0;
  const Real* x[2] = {};
  Real* y[2] = {};
  float scale[2] = {1, 1};
};
template <class Real>
void l2_norms(const L2Norms<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
