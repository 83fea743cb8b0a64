#include "kernel/norm/cpu_rms.h"

#include "kernel/activation/cpu_sigmoid.h"
#include "kernel/norm/cpu_moments.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void rms_norm_row(const RmsNormRow& r) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const float square = squares_about<lanes>(r.x, 0, r.count) / float(r.count);
  const float scale = 1.0f / __builtin_sqrtf(square + r.eps);
  each_vector<lanes>(r.count, [&](int64_t c, int some) {
    auto y = V::load_some(r.x + c, some) * scale * V::load_some(r.weight + c, some);
    if (r.gate) {
      const auto g = V::load_some(r.gate + c, some);
      const auto s = sigmoid<lanes>(g);
      y *= r.silu ? g * s : s;
    }
    V::store_some(r.y + c, y, some);
  });
}

template <Isa isa>
void l2_norm_row(float* x, float eps, float scale, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const float factor = scale / __builtin_sqrtf(squares_about<lanes>(x, 0, count) + eps);
  each_vector<lanes>(count, [&](int64_t c, int some) {
    V::store_some(x + c, V::load_some(x + c, some) * factor, some);
  });
}

template void rms_norm_row<Isa::DELTASANE_ISA>(const RmsNormRow&);
template void l2_norm_row<Isa::DELTASANE_ISA>(float*, float, float, int64_t);

}  // namespace deltasane::kernel::cpu
