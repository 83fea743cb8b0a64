// With n = x s, s = 1 / sqrt(mean(x^2) + eps) and d = dy weight act(gate):
//
//     dx = s (d - n mean(d n))      dweight += dy n act(gate)      dgate = dy n weight act'(gate)
#include "kernel/activation/cpu_gate_derivative.h"
#include "kernel/norm/cpu_moments.h"
#include "kernel/norm/cpu_rms.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void rms_norm_row_backward(const RmsNormRowGradient& r) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const float square = squares_about<lanes>(r.x, 0, r.count) / float(r.count);
  const float scale = 1.0f / __builtin_sqrtf(square + r.eps);
  typename V::Vec along = {};
  each_vector<lanes>(r.count, [&](int64_t c, int some) {
    const auto n = V::load_some(r.x + c, some) * scale, weight = V::load_some(r.weight + c, some);
    auto dy = V::load_some(r.dy + c, some);
    if (r.gate) {
      const auto gate = gate_value<lanes>(r.silu, V::load_some(r.gate + c, some));
      V::store_some(r.dgate + c, dy * n * weight * gate.derivative, some);
      dy *= gate.value;
    }
    add_some<lanes>(r.dweight + c, dy * n, some);
    along += dy * weight * n;
  });
  const float share = V::sum(along) / float(r.count);
  each_vector<lanes>(r.count, [&](int64_t c, int some) {
    const auto n = V::load_some(r.x + c, some) * scale;
    auto d = V::load_some(r.dy + c, some) * V::load_some(r.weight + c, some);
    if (r.gate) d *= gate_value<lanes>(r.silu, V::load_some(r.gate + c, some)).value;
    const auto dx = scale * (d - n * share);
    r.adds ? add_some<lanes>(r.dx + c, dx, some) : V::store_some(r.dx + c, dx, some);
  });
}

template <Isa isa>
void l2_norm_row_backward(const float* x, float eps, float scale, float* dy, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const float inverse = 1.0f / __builtin_sqrtf(squares_about<lanes>(x, 0, count) + eps);
  typename V::Vec along = {};
  each_vector<lanes>(count, [&](int64_t c, int some) {
    along += V::load_some(dy + c, some) * (V::load_some(x + c, some) * inverse);
  });
  const float share = V::sum(along), factor = scale * inverse;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto unit = V::load_some(x + c, some) * inverse;
    V::store_some(dy + c, factor * (V::load_some(dy + c, some) - unit * share), some);
  });
}

template void rms_norm_row_backward<Isa::DELTASANE_ISA>(const RmsNormRowGradient&);
template void l2_norm_row_backward<Isa::DELTASANE_ISA>(const float*, float, float, float*, int64_t);

}  // namespace deltasane::kernel::cpu
