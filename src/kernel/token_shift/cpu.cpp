#include "kernel/token_shift/cpu.h"

#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void shift_row(const float* u, const float* before, const float* mu, float* out, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto x = V::load_some(u + c, some);
    V::store_some(out + c, x + (V::load_some(before + c, some) - x) * V::load_some(mu + c, some),
                  some);
  });
}

template void shift_row<Isa::DELTASANE_ISA>(const float*, const float*, const float*, float*,
                                            int64_t);

}  // namespace deltasane::kernel::cpu
