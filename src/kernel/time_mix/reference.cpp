#include "kernel/time_mix/reference.h"

#include <algorithm>
#include <cmath>

#include "kernel/activation/reference.h"
#include "kernel/norm/reference.h"

namespace deltasane::kernel::reference {

template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op) {
  const Real decay_rate = std::exp(Real(-0.5));
  for (size_t head = 0; head < op.k.size(); head += size_t(op.head_size)) {
    Real squares = 0;
    for (size_t c = head; c < head + size_t(op.head_size); ++c)
      squares += op.k[c] * op.k_k[c] * op.k[c] * op.k_k[c];
    const Real length =
        std::max(std::sqrt(squares + Real(op.key_norm.added)), Real(op.key_norm.least));
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
    layer_norm<Real>(y, op.weight.subspan(head, n), op.bias.subspan(head, n), op.eps, y);
    for (size_t c = head; c < head + n; ++c) op.y[c] = (op.y[c] + bonus * op.v[c]) * op.g[c];
  }
}

template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& op) {
  const Real decay_rate = std::exp(Real(-0.5));
  for (size_t head = 0; head < op.k.size(); head += size_t(op.head_size)) {
    const size_t end = head + size_t(op.head_size);
    Real squares = 0;
    for (size_t c = head; c < end; ++c) squares += op.k[c] * op.k_k[c] * op.k[c] * op.k_k[c];
    const Real length = std::sqrt(squares + Real(op.key_norm.added));
    const Real least = Real(op.key_norm.least);
    const bool shorter = length < least;  // then kappa is a quotient by a constant
    const Real divisor = shorter ? least : length;
    Real along = 0;
    for (size_t c = head; c < end; ++c) {
      const Real kappa = op.k[c] * op.k_k[c] / divisor;
      const Real rate = sigmoid(op.a0[c] + op.a[c]);
      if (!shorter) along += kappa * (op.db[c] * rate - op.da[c]);
    }
    for (size_t c = head; c < end; ++c) {
      const Real k = op.k[c], dk = op.dk[c];
      const Real kappa = k * op.k_k[c] / divisor;
      const Real rate = sigmoid(op.a0[c] + op.a[c]);
      const Real dkappa = op.db[c] * rate - op.da[c];
      const Real drate = op.db[c] * kappa + dk * k * op.k_a[c];
      const Real ddirection = (dkappa - kappa * along) / divisor;
      op.dk_a[c] += dk * k * (rate - 1);
      op.dk_k[c] += ddirection * k;
      op.dk[c] = dk * (1 + (rate - 1) * op.k_a[c]) + ddirection * op.k_k[c];
      op.da[c] = drate * rate * (1 - rate);
      op.da0[c] += op.da[c];
      const Real omega = sigmoid(op.w0[c] + op.w[c]);
      const Real w = std::exp(-decay_rate * omega);
      op.dw[c] *= -decay_rate * w * omega * (1 - omega);
      op.dw0[c] += op.dw[c];
      if (op.gate.empty()) continue;
      const Real share = sigmoid(op.v0[c] + op.gate[c]), dv = op.dv[c];
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
    // dz is both argument and result: each element is read before it is written.
    norm_dx<Real>(y, weight, n, dz, [&](size_t c, Real value) { dz[c] = value; });
  }
}

template void time_mix_inputs(const TimeMixInputs<float>&);
template void time_mix_inputs(const TimeMixInputs<double>&);
template void time_mix_output(const TimeMixOutput<float>&);
template void time_mix_output(const TimeMixOutput<double>&);
template void time_mix_inputs_backward(const TimeMixInputsGradient<float>&);
template void time_mix_inputs_backward(const TimeMixInputsGradient<double>&);
template void time_mix_output_backward(const TimeMixOutputGradient<float>&);
template void time_mix_output_backward(const TimeMixOutputGradient<double>&);

}  // namespace deltasane::kernel::reference
