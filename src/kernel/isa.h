// The CPU instruction sets that kernels are compiled for (cmake/isa.cmake), and the one to use.
//
// Plain declarations only: files compiled for one instruction set include this header.
#pragma once

namespace deltasane::kernel {

enum class Isa {
  portable,
  neon,       // 64-bit ARM
  neon_dot,   // and products of 8-bit numbers (dotprod)
  neon_mm,    // and products of small 8-bit and bf16 matrices, and of f16 (i8mm, bf16, fp16fml)
  avx2,       // and fma, f16c
  avx2_dot,   // and products of 8-bit numbers (avx_vnni)
  avx512,     // f, bw, dq, vl
  avx512_dot, // and products of 8-bit numbers (vnni)
  avx512_amx  // and tiles of bf16 numbers (amx_bf16, avx512_bf16)
};

// Lanes of float in one vector register.
constexpr int lanes_of(Isa isa) {
  if (isa == Isa::avx512 || isa == Isa::avx512_dot || isa == Isa::avx512_amx) return 16;
  return isa == Isa::avx2 || isa == Isa::avx2_dot ? 8 : 4;
}

// Vector registers of the set.
constexpr int registers_of(Isa isa) {
  return isa == Isa::portable || isa == Isa::avx2 || isa == Isa::avx2_dot ? 16 : 32;
}

// Whether it multiplies small matrices of 8-bit and of bf16 numbers (isa_matrix.h).
constexpr bool has_matrices(Isa isa) { return isa == Isa::neon_mm; }

// Whether it has registers for larger matrices of bf16 numbers (isa_tile.h).
constexpr bool has_tiles(Isa isa) { return isa == Isa::avx512_amx; }

// The set that a kernel of floats is compiled for.
constexpr Isa float_isa(Isa isa) {
  if (isa == Isa::neon_dot || isa == Isa::neon_mm) return Isa::neon;
  if (isa == Isa::avx2_dot) return Isa::avx2;
  return isa == Isa::avx512_dot || isa == Isa::avx512_amx ? Isa::avx512 : isa;
}

const char* name_of(Isa isa);
// Built in, this processor has it, and the kernel permits it: tiles have to be asked for, which is
// done once.
bool usable(Isa isa);
Isa best_isa();        // the widest usable one

}  // namespace deltasane::kernel
