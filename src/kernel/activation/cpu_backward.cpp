#include "kernel/activation/cpu.h"
#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void tanh_row_backward(const float* y, float* dy, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto value = V::load_some(y + c, some);
    V::store_some(dy + c, V::load_some(dy + c, some) * (1.0f - value * value), some);
  });
}

template <Isa isa>
void sigmoid_row_backward(const float* y, float* dy, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto value = V::load_some(y + c, some);
    V::store_some(dy + c, V::load_some(dy + c, some) * (value * (1.0f - value)), some);
  });
}

template <Isa isa>
void squared_relu_row_backward(const float* y, float* dy, int64_t count) {
  for (int64_t c = 0; c < count; ++c) dy[c] *= 2.0f * __builtin_sqrtf(y[c]);
}

template void tanh_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);
template void sigmoid_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);
template void squared_relu_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);

}  // namespace deltasane::kernel::cpu
