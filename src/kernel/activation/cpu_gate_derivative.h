// An activation of a gate and its derivative in vectors, for files compiled per instruction set. In an
// unnamed namespace, as in simd.h and for its reason.
#pragma once

#include "kernel/activation/cpu_sigmoid.h"

namespace deltasane::kernel::cpu {
namespace {

template <int lanes>
struct GateValue {
  typename Simd<lanes>::Vec value, derivative;
};

// silu: g sigmoid g; otherwise sigmoid g
template <int lanes>
[[gnu::always_inline]] inline GateValue<lanes> gate_value(bool silu,
                                                          typename Simd<lanes>::Vec g) {
  const auto s = sigmoid<lanes>(g), slope = s * (1.0f - s);
  if (silu) return {g * s, s + g * slope};
  return {s, slope};
}

}  // namespace
}  // namespace deltasane::kernel::cpu
