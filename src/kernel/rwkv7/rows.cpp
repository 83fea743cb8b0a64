#include "kernel/rwkv7/rows.h"

#include "kernel/rwkv7/row_vectors.h"
#include "kernel/small_tanh.h"

namespace deltasane::kernel::cpu {
template <Isa isa>
void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, float* y,
                    int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const float mean = sum_of<lanes>(x, count) / float(count);
  const float variance = squares_about<lanes>(x, mean, count) / float(count);
  const float scale = 1.0f / __builtin_sqrtf(variance + eps);
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto normal = (V::load_some(x + c, some) - mean) * scale;
    V::store_some(y + c, normal * V::load_some(weight + c, some) + V::load_some(bias + c, some),
                  some);
  });
}

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
    const float length = __builtin_sqrtf(V::sum(squares));
    const float inverse = 1.0f / (length > 1e-12f ? length : 1e-12f);
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
    const float n = float(row.head_size);
    const float mean = sum_of<lanes>(row.y + head, row.head_size) / n;
    const float variance = squares_about<lanes>(row.y + head, mean, row.head_size) / n;
    const float scale = 1.0f / __builtin_sqrtf(variance + row.eps);
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
      const auto normal = (load(row.y) - mean) * scale * load(row.weight) + load(row.bias);
      V::store_some(row.y + c, (normal + bonus * load(row.v)) * load(row.g), some);
    });
  }
}

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

template void layer_norm_row<Isa::DELTASANE_ISA>(const float*, const float*, const float*, float,
                                                 float*, int64_t);
template void shift_row<Isa::DELTASANE_ISA>(const float*, const float*, const float*, float*,
                                            int64_t);
template void inputs_row<Isa::DELTASANE_ISA>(const InputsRow&);
template void output_row<Isa::DELTASANE_ISA>(const OutputRow&);
template void tanh_row<Isa::DELTASANE_ISA>(float*, int64_t);
template void sigmoid_row<Isa::DELTASANE_ISA>(float*, int64_t);
template void squared_relu_row<Isa::DELTASANE_ISA>(float*, int64_t);

}  // namespace deltasane::kernel::cpu
