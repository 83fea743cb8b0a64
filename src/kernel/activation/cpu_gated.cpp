#include "kernel/activation/cpu_gated.h"

#include "kernel/activation/cpu_gate_derivative.h"
#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void gated_row(bool silu, const float* gate, const float* x, float* y, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto g = V::load_some(gate + c, some);
    const auto s = sigmoid<lanes>(g);
    V::store_some(y + c, (silu ? g * s : s) * V::load_some(x + c, some), some);
  });
}

template <Isa isa>
void gated_row_backward(const GatedRowGradient& r) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(r.count, [&](int64_t c, int some) {
    const auto gate = gate_value<lanes>(r.silu, V::load_some(r.gate + c, some));
    const auto dy = V::load_some(r.dy + c, some);
    const auto dgate = dy * V::load_some(r.x + c, some) * gate.derivative;
    V::store_some(r.dx + c, dy * gate.value, some);
    V::store_some(r.dgate + c, dgate, some);
  });
}

template void gated_row_backward<Isa::DELTASANE_ISA>(const GatedRowGradient&);
template void gated_row<Isa::DELTASANE_ISA>(bool, const float*, const float*, float*, int64_t);

}  // namespace deltasane::kernel::cpu
