#include "kernel/rwkv7/gradient_reference.h"

#include <cmath>

namespace deltasane::kernel::reference {
namespace {

template <class Real>
Real logistic(Real x) {
  return 1 / (1 + std::exp(-x));
}

// y = xhat weight + bias with xhat = (x - mean) / sqrt(variance + eps)
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

// dx = scale (dxhat - mean(dxhat) - xhat mean(dxhat xhat)), handed to store(c, value)
template <class Real, class Store>
void through_norm(std::span<const Real> x, std::span<const Real> weight, const Normalized<Real>& n,
                  std::span<const Real> dy, Store store) {
  Real mean = 0, along = 0;
  for (size_t c = 0; c < x.size(); ++c) {
    mean += dy[c] * weight[c] / Real(x.size());
    along += dy[c] * weight[c] * n(x[c]) / Real(x.size());
  }
  for (size_t c = 0; c < x.size(); ++c)
    store(c, n.scale * (dy[c] * weight[c] - mean - n(x[c]) * along));
}

}  // namespace

template <class Real>
void layer_norm_backward(const LayerNormGradient<Real>& op) {
  const Normalized<Real> n(op.x, op.eps);
  for (size_t c = 0; c < op.x.size(); ++c) {
    op.dweight[c] += op.dy[c] * n(op.x[c]);
    op.dbias[c] += op.dy[c];
  }
  through_norm<Real>(op.x, op.weight, n, op.dy, [&](size_t c, Real value) { op.dx[c] += value; });
}

template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& op) {
  const Real decay_rate = std::exp(Real(-0.5));
  for (size_t head = 0; head < op.k.size(); head += size_t(op.head_size)) {
    const size_t end = head + size_t(op.head_size);
    Real squares = 0;
    for (size_t c = head; c < end; ++c) squares += op.k[c] * op.k_k[c] * op.k[c] * op.k_k[c];
    const Real length = std::sqrt(squares);
    const bool shorter = length < Real(1e-12);  // then kappa is a quotient by a constant
    const Real divisor = shorter ? Real(1e-12) : length;
    Real along = 0;
    for (size_t c = head; c < end; ++c) {
      const Real kappa = op.k[c] * op.k_k[c] / divisor;
      const Real rate = logistic(op.a0[c] + op.a[c]);
      if (!shorter) along += kappa * (op.db[c] * rate - op.da[c]);
    }
    for (size_t c = head; c < end; ++c) {
      const Real k = op.k[c], dk = op.dk[c];
      const Real kappa = k * op.k_k[c] / divisor;
      const Real rate = logistic(op.a0[c] + op.a[c]);
      const Real dkappa = op.db[c] * rate - op.da[c];
      const Real drate = op.db[c] * kappa + dk * k * op.k_a[c];
      const Real ddirection = (dkappa - kappa * along) / divisor;
      op.dk_a[c] += dk * k * (rate - 1);
      op.dk_k[c] += ddirection * k;
      op.dk[c] = dk * (1 + (rate - 1) * op.k_a[c]) + ddirection * op.k_k[c];
      op.da[c] = drate * rate * (1 - rate);
      op.da0[c] += op.da[c];
      const Real omega = logistic(op.w0[c] + op.w[c]);
      const Real w = std::exp(-decay_rate * omega);
      op.dw[c] *= -decay_rate * w * omega * (1 - omega);
      op.dw0[c] += op.dw[c];
      if (op.gate.empty()) continue;
      const Real share = logistic(op.v0[c] + op.gate[c]), dv = op.dv[c];
      op.dgate[c] = dv * (op.v_first[c] - op.v[c]) * share * (1 - share);
      op.dv0[c] += op.dgate[c];
      op.dv_first[c] += dv * share;
      op.dv[c] = dv * (1 - share);
    }
  }
}

template <class Real>
void time_mix_output_backward(const TimeMixOutputGradient<Real>& op) {
  const size_t size = size_t(op.head_size);
  for (size_t head = 0; head < op.y.size(); head += size) {
    const auto y = op.y.subspan(head, size);
    const auto weight = op.weight.subspan(head, size);
    const auto dz = op.dy.subspan(head, size);
    const Normalized<Real> n(y, op.eps);
    Real bonus = 0, dbonus = 0;
    for (size_t c = head; c < head + size; ++c) bonus += op.r[c] * op.k[c] * op.r_k[c];
    for (size_t c = head; c < head + size; ++c) {
      op.dg[c] = op.dy[c] * (n(op.y[c]) * op.weight[c] + op.bias[c] + bonus * op.v[c]);
      op.dy[c] *= op.g[c];
      dbonus += op.dy[c] * op.v[c];
    }
    for (size_t c = head; c < head + size; ++c) {
      op.dv[c] = bonus * op.dy[c];
      op.dr[c] = dbonus * op.k[c] * op.r_k[c];
      op.dk[c] = dbonus * op.r[c] * op.r_k[c];
      op.dr_k[c] += dbonus * op.r[c] * op.k[c];
      op.dweight[c] += op.dy[c] * n(op.y[c]);
      op.dbias[c] += op.dy[c];
    }
    // Each place is read before it is written.
    through_norm<Real>(y, weight, n, dz, [&](size_t c, Real value) { dz[c] = value; });
  }
}

template void layer_norm_backward(const LayerNormGradient<float>&);
template void layer_norm_backward(const LayerNormGradient<double>&);
template void time_mix_inputs_backward(const TimeMixInputsGradient<float>&);
template void time_mix_inputs_backward(const TimeMixInputsGradient<double>&);
template void time_mix_output_backward(const TimeMixOutputGradient<float>&);
template void time_mix_output_backward(const TimeMixOutputGradient<double>&);

}  // namespace deltasane::kernel::reference
