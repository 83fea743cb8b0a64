#include "kernel/rwkv7/reference.h"

#include <algorithm>
#include <cmath>

namespace deltasane::kernel::reference {
namespace {

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

template <class Real>
void normalize(std::span<const Real> x, std::span<const Real> weight, std::span<const Real> bias,
               Real eps, std::span<Real> y) {
  const Real n = Real(x.size());
  Real mean = 0, variance = 0;
  for (const Real value : x) mean += value / n;
  for (const Real value : x) variance += (value - mean) * (value - mean) / n;
  for (size_t c = 0; c < x.size(); ++c)
    y[c] = (x[c] - mean) / std::sqrt(variance + eps) * weight[c] + bias[c];
}

}  // namespace

template <class Real>
void layer_norm(std::span<const Real> x, std::span<const Real> weight, std::span<const Real> bias,
                Real eps, std::span<Real> y) {
  normalize(x, weight, bias, eps, y);
}

template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op) {
  const Real decay_rate = std::exp(Real(-0.5));
  for (size_t head = 0; head < op.k.size(); head += size_t(op.head_size)) {
    Real squares = 0;
    for (size_t c = head; c < head + size_t(op.head_size); ++c)
      squares += op.k[c] * op.k_k[c] * op.k[c] * op.k_k[c];
    const Real length = std::max(std::sqrt(squares), Real(1e-12));
    for (size_t c = head; c < head + size_t(op.head_size); ++c) {
      const Real kappa = op.k[c] * op.k_k[c] / length;
      const Real rate = sigmoid(op.a0[c] + op.a[c]);
      op.w[c] = std::exp(-decay_rate * sigmoid(op.w0[c] + op.w[c]));
      op.a[c] = -kappa;
      op.b[c] = kappa * rate;
      op.k[c] = op.k[c] * (1 + (rate - 1) * op.k_a[c]);
      if (!op.gate.empty()) op.v[c] += (op.v_first[c] - op.v[c]) * sigmoid(op.v0[c] + op.gate[c]);
    }
  }
}

template <class Real>
void time_mix_output(const TimeMixOutput<Real>& op) {
  const size_t n = size_t(op.head_size);
  for (size_t head = 0; head < op.y.size(); head += n) {
    Real bonus = 0;
    for (size_t c = head; c < head + n; ++c) bonus += op.r[c] * op.k[c] * op.r_k[c];
    const auto y = op.y.subspan(head, n);
    normalize<Real>(y, op.weight.subspan(head, n), op.bias.subspan(head, n), op.eps, y);
    for (size_t c = head; c < head + n; ++c) op.y[c] = (op.y[c] + bonus * op.v[c]) * op.g[c];
  }
}

template void layer_norm(std::span<const float>, std::span<const float>, std::span<const float>,
                         float, std::span<float>);
template void layer_norm(std::span<const double>, std::span<const double>, std::span<const double>,
                         double, std::span<double>);
template void time_mix_inputs(const TimeMixInputs<float>&);
template void time_mix_inputs(const TimeMixInputs<double>&);
template void time_mix_output(const TimeMixOutput<float>&);
template void time_mix_output(const TimeMixOutput<double>&);

}  // namespace deltasane::kernel::reference
