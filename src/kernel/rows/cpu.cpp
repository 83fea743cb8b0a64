#include "kernel/rows/cpu.h"

#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void add_row(const float* from, float* to, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    add_some<lanes>(to + c, V::load_some(from + c, some), some);
  });
}

template void add_row<Isa::DELTASANE_ISA>(const float*, float*, int64_t);

}  // namespace deltasane::kernel::cpu
