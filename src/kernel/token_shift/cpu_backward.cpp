#include "kernel/rows/vectors.h"
#include "kernel/token_shift/cpu.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void shift_row_backward(const ShiftRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(row.count, [&](int64_t c, int some) {
    const auto load = [&](const float* from) { return V::load_some(from + c, some); };
    const auto dout = load(row.dout), mu = load(row.mu), u = load(row.u);
    const auto before = row.before ? load(row.before) : V::splat(0.0f);
    auto du = dout * (1.0f - mu);
    if (row.dout_after) du += load(row.dout_after) * mu;
    add_some<lanes>(row.du + c, du, some);
    add_some<lanes>(row.dmu + c, dout * (before - u), some);
  });
}

template void shift_row_backward<Isa::DELTASANE_ISA>(const ShiftRowGradient&);

}  // namespace deltasane::kernel::cpu
