#include "kernel/isa.h"

#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::neon:
      return "neon";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

bool usable(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::portable:
      return true;
    case Isa::neon:
      return false;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return usable(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  }
#elif defined(__aarch64__)
  return isa == Isa::portable || isa == Isa::neon;
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
