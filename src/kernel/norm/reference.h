// The definition of the layer norm and of its gradient, one row, in float or double; and its parts,
// which a group norm applies to each head.
#pragma once

#include <cmath>
#include <span>

namespace deltasane::kernel::reference {

// xhat = (x - mean) / sqrt(variance + eps)
template <class Real>
struct Normalized {
  Real mean = 0, scale = 0;
  Normalized(std::span<const Real> x, Real eps) {
    Real variance = 0;
    for (const Real value : x) mean += value / Real(x.size());
    for (const Real value : x) variance += (value - mean) * (value - mean) / Real(x.size());
    scale = 1 / std::sqrt(variance + eps);
  }
  Real operator()(Real x) const { return (x - mean) * scale; }
};

// y = xhat weight + bias; y may be x
template <class Real>
void layer_norm(std::span<const Real> x, std::span<const Real> weight, std::span<const Real> bias,
                Real eps, std::span<Real> y);

// dx = scale (dxhat - mean(dxhat) - xhat mean(dxhat xhat)), dxhat = dy weight, passed to
// store(c, dx)
template <class Real, class Store>
void norm_dx(std::span<const Real> x, std::span<const Real> weight, const Normalized<Real>& n,
             std::span<const Real> dy, Store store) {
  Real mean = 0, along = 0;
  for (size_t c = 0; c < x.size(); ++c) {
    mean += dy[c] * weight[c] / Real(x.size());
    along += dy[c] * weight[c] * n(x[c]) / Real(x.size());
  }
  for (size_t c = 0; c < x.size(); ++c)
    store(c, n.scale * (dy[c] * weight[c] - mean - n(x[c]) * along));
}

template <class Real>
struct LayerNormGradient {
  std::span<const Real> x, weight;
  Real eps;
  std::span<const Real> dy;
  std::span<Real> dx, dweight, dbias;  // added to
};
template <class Real>
void layer_norm_backward(const LayerNormGradient<Real>& op);

}  // namespace deltasane::kernel::reference
