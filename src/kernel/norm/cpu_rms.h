// One head of rms.h and of its gradients, compiled per instruction set (cpu_rms.cpp,
// cpu_rms_backward.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

struct RmsNormRow {
  int64_t count;
  const float *x, *weight;
  float eps;
  float* y;
  const float* gate;  // null: none
  bool silu;          // otherwise sigmoid
};
template <Isa isa>
void rms_norm_row(const RmsNormRow& row);

template <Isa isa>
void l2_norm_row(float* x, float eps, float scale, int64_t count);

struct RmsNormRowGradient {
  int64_t count;
  const float *x, *weight;
  float eps;
  const float* gate;  // null: none
  bool silu;
  const float* dy;
  float* dx;
  bool adds;       // to dx
  float *dweight;  // added to
  float* dgate;
};
template <Isa isa>
void rms_norm_row_backward(const RmsNormRowGradient& row);

// dy becomes the gradient of x.
template <Isa isa>
void l2_norm_row_backward(const float* x, float eps, float scale, float* dy, int64_t count);

}  // namespace deltasane::kernel::cpu
