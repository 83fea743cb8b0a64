#include "kernel/time_mix/cpu.h"

#include "kernel/activation/cpu_sigmoid.h"
#include "kernel/norm/cpu_moments.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void inputs_row(const InputsRow& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  constexpr float decay_rate = 0.6065306597126334f;  // exp(-1/2)
  for (int64_t h = 0; h < row.heads; ++h) {
    const int64_t head = h * row.head_size;
    typename V::Vec squares = {};
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      const auto direction = V::load_some(row.k + c, some) * V::load_some(row.k_k + c, some);
      squares += direction * direction;
    });
    const float length = __builtin_sqrtf(V::sum(squares) + row.key_norm.added);
    const float least = row.key_norm.least;
    const float inverse = 1.0f / (length > least ? length : least);
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      const auto load = [&](const float* from) { return V::load_some(from + c, some); };
      const auto k = load(row.k);
      const auto kappa = k * load(row.k_k) * inverse;
      const auto rate = sigmoid<lanes>(load(row.a0) + load(row.a));
      const auto omega = sigmoid<lanes>(load(row.w0) + load(row.w));
      V::store_some(row.w + c, V::exp_of_negative(-decay_rate * omega), some);
      V::store_some(row.a + c, -kappa, some);
      V::store_some(row.b + c, kappa * rate, some);
      V::store_some(row.k + c, k * (1.0f + (rate - 1.0f) * load(row.k_a)), some);
      if (row.gate) {
        const auto v = load(row.v);
        const auto share = sigmoid<lanes>(load(row.v0) + load(row.gate));
        V::store_some(row.v + c, v + (load(row.v_first) - v) * share, some);
      }
    });
  }
}

template <Isa isa>
void output_row(const OutputRow& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  for (int64_t h = 0; h < row.heads; ++h) {
    const int64_t head = h * row.head_size;
    const Moments m = moments_of<lanes>(row.y + head, row.eps, row.head_size);
    typename V::Vec products = {};
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      products += V::load_some(row.r + c, some) * V::load_some(row.k + c, some) *
                  V::load_some(row.r_k + c, some);
    });
    const float bonus = V::sum(products);
    each_vector<lanes>(row.head_size, [&](int64_t at, int some) {
      const int64_t c = head + at;
      const auto load = [&](const float* from) { return V::load_some(from + c, some); };
      const auto normal = (load(row.y) - m.mean) * m.scale * load(row.weight) + load(row.bias);
      V::store_some(row.y + c, (normal + bonus * load(row.v)) * load(row.g), some);
    });
  }
}

template void inputs_row<Isa::DELTASANE_ISA>(const InputsRow&);
template void output_row<Isa::DELTASANE_ISA>(const OutputRow&);

}  // namespace deltasane::kernel::cpu
