#include "kernel/norm/cpu.h"

#include "kernel/norm/cpu_moments.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, float* y,
                    int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const Moments m = moments_of<lanes>(x, eps, count);
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto xhat = (V::load_some(x + c, some) - m.mean) * m.scale;
    V::store_some(y + c, xhat * V::load_some(weight + c, some) + V::load_some(bias + c, some),
                  some);
  });
}

template void layer_norm_row<Isa::DELTASANE_ISA>(const float*, const float*, const float*, float,
                                                 float*, int64_t);

}  // namespace deltasane::kernel::cpu
