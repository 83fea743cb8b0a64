#include "kernel/matmul/reference.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace deltasane::kernel::reference {

template <class Real>
std::vector<Real> q8_rounded(View<const float> x) {
  const int64_t tokens = x.shape[0], in = x.shape[1];
  std::vector<Real> rounded(size_t(tokens * in));
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t begin = 0; begin < in; begin += q8_columns) {
      const int64_t end = std::min(in, begin + q8_columns);
      float largest = 0;
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x(t, i)));
      const float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0.0f;
      for (int64_t i = begin; i < end; ++i)
        rounded[size_t(t * in + i)] = Real(std::round(x(t, i) * inverse)) * Real(scale);
    }
  return rounded;
}

Tensor<float> bf16_pairs(View<const float> x) {
  constexpr float largest = 0x1.fep127f;  // of bf16
  Tensor<float> pairs({x.shape[0], x.shape[1]});
  for (int64_t t = 0; t < x.shape[0]; ++t)
    for (int64_t i = 0; i < x.shape[1]; ++i) {
      const float number = x(t, i);
      const float high = std::clamp(float(bf16(number)), -largest, largest);
      pairs.view()(t, i) = std::isfinite(number) ? high + float(bf16(number - high)) : number;
    }
  return pairs;
}

namespace {

// x_of(token, input), w_of(row, input).
template <class Real, class Input, class Weight>
void multiply(const Weights& w, const Input& x_of, const Weight& w_of, View<Real> y, Store store) {
  std::vector<Real> row(size_t(w.in()));
  for (int64_t o = 0; o < w.out(); ++o) {
    for (int64_t i = 0; i < w.in(); ++i) row[size_t(i)] = w_of(o, i);
    for (int64_t t = 0; t < y.shape[0]; ++t) {
      Real sum = 0;
      for (int64_t i = 0; i < w.in(); ++i) sum += row[size_t(i)] * x_of(t, i);
      y(t, o) = store == Store::add ? y(t, o) + sum : sum;
    }
  }
}

}  // namespace

template <class Real>
void matmul(const Weights& w, View<const float> x, View<Real> y, Store store) {
  const auto w_of = [&](int64_t o, int64_t i) { return Real(w.at(o, i)); };
  if (is_quantized(w.type())) {
    const std::vector<Real> rounded = q8_rounded<Real>(x);
    multiply(w, [&](int64_t t, int64_t i) { return rounded[size_t(t * w.in() + i)]; }, w_of, y,
             store);
  } else {
    multiply(w, [&](int64_t t, int64_t i) { return Real(x(t, i)); }, w_of, y, store);
  }
}

template <class Real>
void matmul_bf16(const Weights& w, View<const float> x, View<Real> y, Store store) {
  const auto rounded = [](float number) { return Real(float(bf16(number))); };
  multiply(w, [&](int64_t t, int64_t i) { return rounded(x(t, i)); },
           [&](int64_t o, int64_t i) { return rounded(w.at(o, i)); }, y, store);
}

template std::vector<float> q8_rounded(View<const float>);
template std::vector<double> q8_rounded(View<const float>);
template void matmul(const Weights&, View<const float>, View<float>, Store);
template void matmul(const Weights&, View<const float>, View<double>, Store);
template void matmul_bf16(const Weights&, View<const float>, View<float>, Store);
template void matmul_bf16(const Weights&, View<const float>, View<double>, Store);

}  // namespace deltasane::kernel::reference
