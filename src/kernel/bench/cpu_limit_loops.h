// The two plain loops, compiled per instruction set (cpu_limit_loops.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
float read_all(const float* from, int64_t count);  // count: a multiple of 256

// Vector multiply-adds in one round, all independent. operands: 8 vectors of numbers.
constexpr int64_t multiply_adds_per_round(Isa isa) { return registers_of(isa) == 32 ? 16 : 9; }
template <Isa isa>
float multiply_add(int64_t rounds, const float* operands);

}  // namespace deltasane::kernel::cpu
