// One head of rms.h, compiled per instruction set (cpu_rms.cpp). Plain declarations only.
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

}  // namespace deltasane::kernel::cpu
