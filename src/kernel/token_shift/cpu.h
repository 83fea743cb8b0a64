// One row of the token shift and of its gradient, compiled per instruction set (cpu.cpp,
// cpu_backward.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void shift_row(const float* u, const float* before, const float* mu, float* out, int64_t count);

struct ShiftRowGradient {
  int64_t count;
  const float *u, *before, *mu, *dout;  // before: null where it was zero
  const float* dout_after;              // of the row after; null in the last
  float *du, *dmu;                      // both added to
};
template <Isa isa>
void shift_row_backward(const ShiftRowGradient& row);

}  // namespace deltasane::kernel::cpu
