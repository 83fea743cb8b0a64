// From a run-time instruction set to a compile-time one: with_isa(isa, [&]<Isa I>() { ... }).
#pragma once

#include <array>

#include "base/error.h"
#include "kernel/isa.h"

namespace deltasane::kernel {

// Narrow to wide. Kept equal to DELTASANE_ISAS of cmake/isa.cmake by a test.
#if defined(__x86_64__)
inline constexpr std::array built_isas{Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_dot};
#elif defined(__aarch64__)
inline constexpr std::array built_isas{Isa::portable, Isa::neon, Isa::neon_dot, Isa::neon_mm};
#else
inline constexpr std::array built_isas{Isa::portable};
#endif

template <class Body>
void with_isa(Isa isa, Body&& body) {
  if (!usable(isa))
    fail(Fault::device, "instruction set: expected one this processor has, found ", name_of(isa));
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((built_isas[I] == isa && (body.template operator()<built_isas[I]>(), true)) || ...);
  }
  (std::make_index_sequence<built_isas.size()>{});
}

}  // namespace deltasane::kernel
