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

// A few consecutive vectors.
template <Isa isa, WeightType type, int count>
[[gnu::always_inline]] inline void load_vectors(const Element<type>* from,
                                                typename Vector<lanes_of(isa)>::Vec (&to)[count]) {
  constexpr int lanes = lanes_of(isa);
  if constexpr (type == WeightType::bf16 && lanes == 4) {
    static_assert(count % 2 == 0);
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
