// One row, compiled per instruction set (cpu.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
float largest_of_row(const float* x, int64_t count);

// x = exp(x - largest); the sum of the results.
template <Isa isa>
float exp_row(float* x, float largest, int64_t count);

template <Isa isa>
void scale_row(float* x, float factor, int64_t count);

}  // namespace deltasane::kernel::cpu
