// to += from, one row, compiled per instruction set (cpu.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void add_row(const float* from, float* to, int64_t count);

}  // namespace deltasane::kernel::cpu
