// One row of gated.h and of its gradient, compiled per instruction set (cpu_gated.cpp). Plain
// declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void gated_row(bool silu, const float* gate, const float* x, float* y, int64_t count);

struct GatedRowGradient {
  bool silu;  // otherwise sigmoid
  int64_t count;
  const float *gate, *x, *dy;
  float *dgate, *dx;
};
template <Isa isa>
void gated_row_backward(const GatedRowGradient& row);

}  // namespace deltasane::kernel::cpu
