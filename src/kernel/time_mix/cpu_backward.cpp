#include "kernel/activation/cpu_sigmoid.h"
#include "kernel/norm/cpu_moments.h"
#include "kernel/time_mix/cpu.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void inputs_row_backward(const InputsRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  constexpr float decay_rate = 0.6065306597126334f;  // exp(-1/2)
  for (int64_t h = 0; h < row.heads; ++h) {
    const int64_t head = h * row.head_size;
    typename V::Vec squares = {}, products = {};
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const auto load = [&](const float* from) { return V::load_some(from + head + at, some); };
      const auto direction = load(row.k) * load(row.k_k);
      const auto rate = sigmoid<lanes>(load(row.a0) + load(row.a));
      squares += direction * direction;
      products += direction * (load(row.db) * rate - load(row.da));
    });
    const float length = __builtin_sqrtf(V::sum(squares) + row.key_norm.added);
    const bool shorter = length < row.key_norm.least;  // then kappa is a quotient by a constant
    const float inverse = 1.0f / (shorter ? row.key_norm.least : length);
    const float along = shorter ? 0.0f : V::sum(products) * inverse;
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      const auto load = [&](const float* from) { return V::load_some(from + c, some); };
      const auto k = load(row.k), k_k = load(row.k_k), k_a = load(row.k_a);
      const auto dk = load(row.dk), db = load(row.db);
      const auto kappa = k * k_k * inverse;
      const auto rate = sigmoid<lanes>(load(row.a0) + load(row.a));
      const auto dkappa = db * rate - load(row.da);
      const auto drate = db * kappa + dk * k * k_a;
      const auto ddirection = (dkappa - kappa * along) * inverse;
      add_some<lanes>(row.dk_a + c, dk * k * (rate - 1.0f), some);
      add_some<lanes>(row.dk_k + c, ddirection * k, some);
      V::store_some(row.dk + c, dk * (1.0f + (rate - 1.0f) * k_a) + ddirection * k_k, some);
      const auto da = drate * rate * (1.0f - rate);
      V::store_some(row.da + c, da, some);
      add_some<lanes>(row.da0 + c, da, some);
      const auto omega = sigmoid<lanes>(load(row.w0) + load(row.w));
      const auto w = V::exp_of_negative(-decay_rate * omega);
      const auto dw = load(row.dw) * (-decay_rate * w * omega * (1.0f - omega));
      V::store_some(row.dw + c, dw, some);
      add_some<lanes>(row.dw0 + c, dw, some);
      if (!row.gate) return;
      const auto share = sigmoid<lanes>(load(row.v0) + load(row.gate)), dv = load(row.dv);
      const auto dgate = dv * (load(row.v_first) - load(row.v)) * share * (1.0f - share);
      V::store_some(row.dgate + c, dgate, some);
      add_some<lanes>(row.dv0 + c, dgate, some);
      add_some<lanes>(row.dv_first + c, dv * share, some);
      V::store_some(row.dv + c, dv * (1.0f - share), some);
    });
  }
}

template <Isa isa>
void output_row_backward(const OutputRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  for (int64_t h = 0; h < row.heads; ++h) {
    const int64_t head = h * row.head_size, size = row.head_size;
    const Moments m = moments_of<lanes>(row.y + head, row.eps, size);
    typename V::Vec products = {}, dproducts = {};
    each_vector<lanes>(size, [&](int64_t at, int some) {
      const auto load = [&](const float* from) { return V::load_some(from + head + at, some); };
      products += load(row.r) * load(row.k) * load(row.r_k);
      dproducts += load(row.dy) * load(row.g) * load(row.v);
    });
    const float bonus = V::sum(products), dbonus = V::sum(dproducts);
    each_vector<lanes>(size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      const auto load = [&](const float* from) { return V::load_some(from + c, some); };
      const auto xhat = (load(row.y) - m.mean) * m.scale;
      const auto r = load(row.r), k = load(row.k), v = load(row.v), r_k = load(row.r_k);
      const auto dy = load(row.dy), dz = dy * load(row.g);
      V::store_some(row.dg + c, dy * (xhat * load(row.weight) + load(row.bias) + bonus * v), some);
      V::store_some(row.dy + c, dz, some);
      V::store_some(row.dv + c, bonus * dz, some);
      V::store_some(row.dr + c, dbonus * k * r_k, some);
      V::store_some(row.dk + c, dbonus * r * r_k, some);
      add_some<lanes>(row.dr_k + c, dbonus * r * k, some);
      add_some<lanes>(row.dweight + c, dz * xhat, some);
      add_some<lanes>(row.dbias + c, dz, some);
    });
    norm_dx<lanes>(
        row.y + head, row.weight + head, m, row.dy + head, size,
        [&](int64_t c, int some, auto value) { V::store_some(row.dy + head + c, value, some); });
  }
}

template void inputs_row_backward<Isa::DELTASANE_ISA>(const InputsRowGradient&);
template void output_row_backward<Isa::DELTASANE_ISA>(const OutputRowGradient&);

}  // namespace deltasane::kernel::cpu
