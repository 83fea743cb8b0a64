// The gradients of the RMS norm and of the L2 norm (rms.h) on a GPU. Arithmetic is float; sums over
// rows are taken in an order that depends on the shape alone.
//
// rms_reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/activation/gated.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// x, dy, dx, gate, dgate: (rows, heads size), packed. dx may be the memory of dy where it is
// overwritten and there is no gate.
template <class Real, class Gradient>  // (float, float), (float, bf16), (bf16, bf16)
struct RmsNormGradient {
  int64_t rows = 0, heads = 1, size = 0;  // size: up to 8192
  const Real* x = nullptr;
  const float* weight = nullptr;  // (size)
  float eps = 0;
  const Gradient* dy = nullptr;
  Real* dx = nullptr;
  bool add = false;                  // dx += ...
  bf16* rounded = nullptr;           // dx again, in bf16; null: not wanted
  float* dweight = nullptr;          // (size), added to
  const Real* gate = nullptr;        // null: none
  const float* gate_bias = nullptr;  // (heads size); null: none
  GateActivation activation = GateActivation::silu;
  Real* dgate = nullptr;
  // (rows): rows whose y was 0 have no gradient; dx is left as it is. With add only; null: all 1
  const uint8_t* present = nullptr;
  float* scratch = nullptr;  // rms_backward_scratch() floats
};
int64_t rms_backward_scratch(int64_t rows, int64_t heads, int64_t size);
template <class Real, class Gradient>
void rms_norm_backward(const RmsNormGradient<Real, Gradient>& op, const Gpu& gpu);

// Of two packed matrices (rows, heads, size): d, the gradient of y, becomes that of x.
template <class Real>
struct L2NormsGradient {
  int64_t rows = 0, heads = 0, size = 0;
  float eps = 0;
  const Real* x[2] = {};
  Real* d[2] = {};
  float scale[2] = {1, 1};
};
template <class Real>
void l2_norms_backward(const L2NormsGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
