#include "kernel/isa.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {
#if defined(__x86_64__)
namespace {

// What the compilers' own tests of processors do not all know.
struct Processor {
  bool f16c = false, avx_vnni = false, amx = false;
  Processor() {
    unsigned a, b, c, d;
    bool avx512_bf16 = false;
    if (__get_cpuid(1, &a, &b, &c, &d)) f16c = c & 1u << 29;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) avx_vnni = a & 1u << 4, avx512_bf16 = a & 1u << 5;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;
      amx = (d & bf16) && (d & tile) && avx512_bf16;
    }
  }
};

const Processor& processor() {
  static const Processor found;
  return found;
}

// A program may use tiles after it has asked Linux for room to save them (since 5.16).
bool tiles_are_permitted() {
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool permitted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return permitted;
}

}  // namespace
#endif

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::neon:
      return "neon";
    case Isa::neon_dot:
      return "neon_dot";
    case Isa::neon_mm:
      return "neon_mm";
    case Isa::avx2:
      return "avx2";
    case Isa::avx2_dot:
      return "avx2_dot";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_dot:
      return "avx512_dot";
    case Isa::avx512_amx:
      return "avx512_amx";
  }
  return "unknown";
}

bool usable(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::portable:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             processor().f16c;
    case Isa::avx2_dot:
      return usable(Isa::avx2) && processor().avx_vnni;
    case Isa::avx512:
      return usable(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Isa::avx512_dot:
      return usable(Isa::avx512) && __builtin_cpu_supports("avx512vnni");
    case Isa::avx512_amx:
      return usable(Isa::avx512_dot) && processor().amx && tiles_are_permitted();
    case Isa::neon:
    case Isa::neon_dot:
    case Isa::neon_mm:
      return false;
  }
#elif defined(__aarch64__)
  switch (isa) {
    case Isa::portable:
    case Isa::neon:
      return true;
    case Isa::neon_dot:
      return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    case Isa::neon_mm:
      return usable(Isa::neon_dot) && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) &&
             (getauxval(AT_HWCAP2) & HWCAP2_BF16) && (getauxval(AT_HWCAP) & HWCAP_ASIMDFHM);
    case Isa::avx2:
    case Isa::avx2_dot:
    case Isa::avx512:
    case Isa::avx512_dot:
    case Isa::avx512_amx:
      return false;
  }
#endif
  return isa == Isa::portable;
}

Isa best_isa() {
  Isa best = Isa::portable;
  for (const Isa isa : built_isas)
    if (usable(isa)) best = isa;
  return best;
}

}  // namespace deltasane::kernel
