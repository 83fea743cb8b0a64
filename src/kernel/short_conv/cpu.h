// One token of the short convolution, compiled per instruction set (cpu.cpp). Plain declarations
// only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

inline constexpr int64_t max_taps = 16;

// inputs: of each tap, oldest first; weight: (taps, count).
template <Isa isa>
void short_conv_row(const float* const* inputs, int64_t taps, const float* weight, float* y,
                    int64_t count);

}  // namespace deltasane::kernel::cpu
