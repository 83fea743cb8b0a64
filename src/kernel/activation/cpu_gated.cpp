#include "kernel/activation/cpu_gated.h"

#include "kernel/activation/cpu_sigmoid.h"
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

template void gated_row<Isa::DELTASANE_ISA>(bool, const float*, const float*, float*, int64_t);

}  // namespace deltasane::kernel::cpu
