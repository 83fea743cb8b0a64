// From a run-time instruction set to a compile-time one: with_isa(isa, [&]<Isa I>() { ... }).
#pragma once

#include <array>

#include "base/error.h"
#include "kernel/isa.h"

namespace deltasane::kernel {

// Narrow to wide. A set that is here and not in cmake/isa.cmake fails to link.
#if defined(__x86_64__)
inline constexpr std::array built_isas{Isa::portable, Isa::avx2,       Isa::avx2_dot,
                                       Isa::avx512,   Isa::avx512_dot, Isa::avx512_amx};
inline constexpr std::array float_isas{Isa::portable, Isa::avx2, Isa::avx512};
#elif defined(__aarch64__)
inline constexpr std::array built_isas{Isa::portable, Isa::neon, Isa::neon_dot, Isa::neon_mm};
inline constexpr std::array float_isas{Isa::portable, Isa::neon};
#else
inline constexpr std::array built_isas{Isa::portable};
inline constexpr std::array float_isas{Isa::portable};
#endif

template <auto levels, class Body>
void with_level(Isa isa, Body&& body) {
  const bool found = [&]<size_t... I>(std::index_sequence<I...>) {
    return ((levels[I] == isa && (body.template operator()<levels[I]>(), true)) || ...);
  }
  (std::make_index_sequence<levels.size()>{});
  require(found, "an instruction set that is usable was built");
}

inline void expect_usable(Isa isa) {
  if (!usable(isa))
    fail(Fault::device, "instruction set: expected one this processor has, found ", name_of(isa));
}

template <class Body>
void with_isa(Isa isa, Body&& body) {
  expect_usable(isa);
  with_level<built_isas>(isa, body);
}

// For kernels that compute with floats only: a set that adds nothing for floats runs as the one
// below it.
template <class Body>
void with_float_isa(Isa isa, Body&& body) {
  expect_usable(isa);
  with_level<float_isas>(float_isa(isa), body);
}

}  // namespace deltasane::kernel
