#include "kernel/norm/reference.h"

namespace deltasane::kernel::reference {

template <class Real>
void layer_norm(std::span<const Real> x, std::span<const Real> weight, std::span<const Real> bias,
                Real eps, std::span<Real> y) {
  const Real n = Real(x.size());
  Real mean = 0, variance = 0;
  for (const Real value : x) mean += value / n;
  for (const Real value : x) variance += (value - mean) * (value - mean) / n;
  for (size_t c = 0; c < x.size(); ++c)
    y[c] = (x[c] - mean) / std::sqrt(variance + eps) * weight[c] + bias[c];
}

template <class Real>
void layer_norm_backward(const LayerNormGradient<Real>& op) {
  const Normalized<Real> n(op.x, op.eps);
  for (size_t c = 0; c < op.x.size(); ++c) {
    op.dweight[c] += op.dy[c] * n(op.x[c]);
    op.dbias[c] += op.dy[c];
  }
  norm_dx<Real>(op.x, op.weight, n, op.dy, [&](size_t c, Real value) { op.dx[c] += value; });
}

template void layer_norm(std::span<const float>, std::span<const float>, std::span<const float>,
                         float, std::span<float>);
template void layer_norm(std::span<const double>, std::span<const double>, std::span<const double>,
                         double, std::span<double>);
template void layer_norm_backward(const LayerNormGradient<float>&);
template void layer_norm_backward(const LayerNormGradient<double>&);

}  // namespace deltasane::kernel::reference
