// One row of the layer norm and of its gradient, compiled per instruction set (cpu.cpp,
// cpu_backward.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, float* y,
                    int64_t count);

struct LayerNormRowGradient {
  int64_t count;
  const float *x, *weight;
  float eps;
  const float* dy;
  float *dx, *dweight, *dbias;  // added to
};
template <Isa isa>
void layer_norm_row_backward(const LayerNormRowGradient& row);

}  // namespace deltasane::kernel::cpu
