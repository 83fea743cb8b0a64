#include "kernel/short_conv/cpu.h"

#include "kernel/activation/cpu_gate_derivative.h"
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

template <Isa isa>
void short_conv_sum_backward(const float* const* inputs, int64_t taps, const float* weight,
                             float* dy, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    typename V::Vec sum = {};
    for (int64_t j = 0; j < taps; ++j)
      if (inputs[j])
        sum += V::load_some(weight + j * count + c, some) * V::load_some(inputs[j] + c, some);
    V::store_some(dy + c, V::load_some(dy + c, some) * gate_value<lanes>(true, sum).derivative,
                  some);
  });
}

template <Isa isa>
void short_conv_row_backward(const ShortConvRowGradient& r) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(r.count, [&](int64_t c, int some) {
    const auto dsum = V::load_some(r.dsum + c, some);
    typename V::Vec dx = {};
    for (int64_t j = 0; j < r.taps; ++j) {
      const int64_t at = j * r.count + c;
      if (r.inputs[j])
        add_some<lanes>(r.dweight + at, dsum * V::load_some(r.inputs[j] + c, some), some);
      if (r.dsums[j])
        dx += V::load_some(r.weight + at, some) * V::load_some(r.dsums[j] + c, some);
    }
    V::store_some(r.dx + c, dx, some);
  });
}

template void short_conv_sum_backward<Isa::DELTASANE_ISA>(const float* const*, int64_t,
                                                          const float*, float*, int64_t);
template void short_conv_row_backward<Isa::DELTASANE_ISA>(const ShortConvRowGradient&);
template void short_conv_row<Isa::DELTASANE_ISA>(const float* const*, int64_t, const float*, float*,
                                                 int64_t);

}  // namespace deltasane::kernel::cpu
