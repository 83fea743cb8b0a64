#include "kernel/short_conv/cpu.h"

#include "kernel/activation/cpu_sigmoid.h"
#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void short_conv_row(const float* const* inputs, int64_t taps, const float* weight, float* y,
                    int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    typename V::Vec sum = {};
    for (int64_t j = 0; j < taps; ++j)
      sum += V::load_some(weight + j * count + c, some) * V::load_some(inputs[j] + c, some);
    V::store_some(y + c, sum * sigmoid<lanes>(sum), some);
  });
}

template void short_conv_row<Isa::DELTASANE_ISA>(const float* const*, int64_t, const float*, float*,
                                                 int64_t);

}  // namespace deltasane::kernel::cpu
