#include "kernel/activation/cpu.h"

#include "kernel/activation/cpu_sigmoid.h"
#include "kernel/rows/vectors.h"
#include "kernel/small_tanh.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void tanh_row(float* x, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto value = V::load_some(x + c, some);
    const auto e = V::exp_of_negative(value < 0.0f ? 2.0f * value : -2.0f * value);
    const auto th = (1.0f - e) / (1.0f + e);
    const auto large = value < 0.0f ? -th : th;
    const auto z = value * value;
    const auto small = value + value * z * SmallTanh<lanes>::excess(z);
    V::store_some(x + c, z <= SmallTanh<lanes>::largest_square ? small : large, some);
  });
}

template <Isa isa>
void sigmoid_row(float* x, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    V::store_some(x + c, sigmoid<lanes>(V::load_some(x + c, some)), some);
  });
}

template <Isa isa>
void squared_relu_row(float* x, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto value = V::load_some(x + c, some);
    const auto positive = value < 0.0f ? V::splat(0.0f) : value;
    V::store_some(x + c, positive * positive, some);
  });
}

template void tanh_row<Isa::DELTASANE_ISA>(float*, int64_t);
template void sigmoid_row<Isa::DELTASANE_ISA>(float*, int64_t);
template void squared_relu_row<Isa::DELTASANE_ISA>(float*, int64_t);

}  // namespace deltasane::kernel::cpu
