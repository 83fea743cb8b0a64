// The CPU instruction sets the kernels are compiled for (cmake/isa.cmake), and the one to use.
//
// Plain declarations only: files compiled for one instruction set include this header.
#pragma once

namespace deltasane::kernel {

enum class Isa { portable, neon, avx2, avx512 };

// Lanes of float in one vector register.
constexpr int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4; }

// Vector registers a kernel may count on.
constexpr int registers_of(Isa isa) { return isa == Isa::neon || isa == Isa::avx512 ? 32 : 16; }

const char* name_of(Isa isa);
bool usable(Isa isa);  // built in, and this processor has it
Isa best_isa();        // the widest usable one

}  // namespace deltasane::kernel
