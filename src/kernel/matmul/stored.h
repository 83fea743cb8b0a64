// Stored weights as vectors of float. For files compiled per instruction set.
#pragma once

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

}  // namespace
}  // namespace deltasane::kernel
