#include "kernel/rwkv7/gradient_rows.h"

#include "kernel/rwkv7/row_vectors.h"

namespace deltasane::kernel::cpu {
namespace {

struct Moments {
  float mean, scale;
};

template <int lanes>
Moments moments_of(const float* x, float eps, int64_t count) {
  const float mean = sum_of<lanes>(x, count) / float(count);
  const float variance = squares_about<lanes>(x, mean, count) / float(count);
  return {mean, 1.0f / __builtin_sqrtf(variance + eps)};
}

// dx = scale (dxhat - mean(dxhat) - xhat mean(dxhat xhat)), dxhat = dy weight; handed to
// store(c, some, value).
template <int lanes, class Store>
[[gnu::always_inline]] inline void through_norm(const float* x, const float* weight,
                                                const Moments& m, const float* dy, int64_t count,
                                                Store store) {
  using V = Simd<lanes>;
  typename V::Vec sum = {}, along = {};
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto dxhat = V::load_some(dy + c, some) * V::load_some(weight + c, some);
    sum += dxhat;  // lanes past the end are 0 here and below
    along += dxhat * ((V::load_some(x + c, some) - m.mean) * m.scale);
  });
  const float mean = V::sum(sum) / float(count), share = V::sum(along) / float(count);
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto dxhat = V::load_some(dy + c, some) * V::load_some(weight + c, some);
    const auto xhat = (V::load_some(x + c, some) - m.mean) * m.scale;
    store(c, some, m.scale * (dxhat - mean - xhat * share));
  });
}

template <int lanes>
[[gnu::always_inline]] inline void add_some(float* to, typename Simd<lanes>::Vec value, int some) {
  using V = Simd<lanes>;
  V::store_some(to, V::load_some(to, some) + value, some);
}

}  // namespace

template <Isa isa>
void norm_row_backward(const NormRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  const Moments m = moments_of<lanes>(row.x, row.eps, row.count);
  each_vector<lanes>(row.count, [&](int64_t c, int some) {
    const auto dy = V::load_some(row.dy + c, some);
    add_some<lanes>(row.dweight + c, dy * ((V::load_some(row.x + c, some) - m.mean) * m.scale),
                    some);
    add_some<lanes>(row.dbias + c, dy, some);
  });
  through_norm<lanes>(
      row.x, row.weight, m, row.dy, row.count,
      [&](int64_t c, int some, auto value) { add_some<lanes>(row.dx + c, value, some); });
}

template <Isa isa>
void shift_row_backward(const ShiftRowGradient& row) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(row.count, [&](int64_t c, int some) {
    const auto load = [&](const float* from) { return V::load_some(from + c, some); };
    const auto dout = load(row.dout), mu = load(row.mu), u = load(row.u);
    const auto before = row.before ? load(row.before) : V::splat(0.0f);
    auto du = dout * (1.0f - mu);
    if (row.dout_after) du += load(row.dout_after) * mu;
    add_some<lanes>(row.du + c, du, some);
    add_some<lanes>(row.dmu + c, dout * (before - u), some);
  });
}

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
    const float length = __builtin_sqrtf(V::sum(squares));
    const bool shorter = length < 1e-12f;  // then kappa is a quotient by a constant
    const float inverse = 1.0f / (shorter ? 1e-12f : length);
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
    through_norm<lanes>(
        row.y + head, row.weight + head, m, row.dy + head, size,
        [&](int64_t c, int some, auto value) { V::store_some(row.dy + head + c, value, some); });
  }
}

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

template <Isa isa>
void add_row(const float* from, float* to, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  each_vector<lanes>(count, [&](int64_t c, int some) {
    add_some<lanes>(to + c, V::load_some(from + c, some), some);
  });
}

template void norm_row_backward<Isa::DELTASANE_ISA>(const NormRowGradient&);
template void shift_row_backward<Isa::DELTASANE_ISA>(const ShiftRowGradient&);
template void inputs_row_backward<Isa::DELTASANE_ISA>(const InputsRowGradient&);
template void output_row_backward<Isa::DELTASANE_ISA>(const OutputRowGradient&);
template void tanh_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);
template void sigmoid_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);
template void squared_relu_row_backward<Isa::DELTASANE_ISA>(const float*, float*, int64_t);
template void add_row<Isa::DELTASANE_ISA>(const float*, float*, int64_t);

}  // namespace deltasane::kernel::cpu
