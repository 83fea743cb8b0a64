#include "kernel/norm/cpu.h"
#include "kernel/norm/cpu_moments.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void layer_norm_row_backward(const LayerNormRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const Moments m = moments_of<lanes>(row.x, row.eps, row.count);
  each_vector<lanes>(row.count, [&](int64_t c, int some) {
    const auto dy = V::load_some(row.dy + c, some);
    add_some<lanes>(row.dweight + c, dy * ((V::load_some(row.x + c, some) - m.mean) * m.scale),
                    some);
    add_some<lanes>(row.dbias + c, dy, some);
  });
  norm_dx<lanes>(row.x, row.weight, m, row.dy, row.count, [&](int64_t c, int some, auto value) {
    add_some<lanes>(row.dx + c, value, some);
  });
}

template void layer_norm_row_backward<Isa::DELTASANE_ISA>(const LayerNormRowGradient&);

}  // namespace deltasane::kernel::cpu
