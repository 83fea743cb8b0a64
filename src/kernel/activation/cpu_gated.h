// One row of gated.h, compiled per instruction set (cpu_gated.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void gated_row(bool silu, const float* gate, const float* x, float* y, int64_t count);

}  // namespace deltasane::kernel::cpu
