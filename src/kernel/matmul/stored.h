// Stored weights as vectors of float. For files compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernel/isa_half.h"
#include "kernel/matmul/weight_type.h"

namespace deltasane::kernel {
namespace {

template <WeightType type>
struct Stored {
  using Element = uint16_t;
};
template <>
struct Stored<WeightType::f32> {
  using Element = float;
};
template <WeightType type>
using Element = typename Stored<type>::Element;

template <Isa isa, WeightType type, int lanes = lanes_of(isa)>
[[gnu::always_inline]] inline typename Vector<lanes>::Vec load_stored(const Element<type>* from) {
  if constexpr (type == WeightType::f32)
    return Simd<lanes>::load(from);
  else if constexpr (type == WeightType::f16)
    return load_f16<isa, lanes>(from);
  else
    return load_bf16<lanes>(from);
}

// f16 on ARM, for dot products: the bits in a float's place, which mean the weight times 2^-112.
// The instruction for f16 has half the pace of memory on many cores. Inputs are made 2^80 times
// larger before, sums 2^32 times after, so that neither overflows below 2^48. Subnormal numbers are
// exact; infinities and NaN would be read as numbers, and weights have none
// (Weights::expect_finite).
template <Isa isa, WeightType type>
constexpr bool shifted = type == WeightType::f16 &&
                         (isa == Isa::neon || isa == Isa::neon_dot || isa == Isa::neon_mm);
template <Isa isa, WeightType type>
constexpr float laid_unit = shifted<isa, type> ? 0x1p80f : 1.0f;
template <Isa isa, WeightType type>
constexpr float stored_unit = shifted<isa, type> ? 0x1p32f : 1.0f;

// A few vectors side by side, for dot products with inputs times laid_unit.
template <Isa isa, WeightType type, int count>
[[gnu::always_inline]] inline void load_side_by_side(
    const Element<type>* from, typename Vector<lanes_of(isa)>::Vec (&to)[count]) {
  constexpr int lanes = lanes_of(isa);
  if constexpr (shifted<isa, type> && count == 1) {
    to[0] = first_shifted(load_low(from));
  } else if constexpr (shifted<isa, type>) {
#pragma GCC unroll 4
    for (int i = 0; i < count; i += 2) {
      to[i] = first_shifted(load_short<8>(from + i * 4));
      to[i + 1] = last_shifted(load_short<8>(from + i * 4));
    }
  } else if constexpr (type == WeightType::bf16 && lanes == 4 && count > 1) {
#pragma GCC unroll 4
    for (int i = 0; i < count; i += 2) {
      to[i] = first_as_upper(load_short<8>(from + i * 4));
      to[i + 1] = last_as_upper(load_short<8>(from + i * 4));
    }
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) to[i] = load_stored<isa, type>(from + i * lanes);
  }
}

}  // namespace
}  // namespace deltasane::kernel
