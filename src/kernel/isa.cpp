#include "kernel/isa.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {

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
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_dot:
      return "avx512_dot";
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
             __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return usable(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Isa::avx512_dot:
      return usable(Isa::avx512) && __builtin_cpu_supports("avx512vnni");
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
    case Isa::avx512:
    case Isa::avx512_dot:
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
