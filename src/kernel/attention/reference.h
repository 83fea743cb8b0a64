// The definition of attention for one query of one head and of its gradient, in float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace deltasane::kernel::reference {

// k: (rows, size of q), v: (rows, size of y): the rows it sees.
template <class Real>
void attention(std::span<const Real> q, std::span<const Real> k, std::span<const Real> v,
               Real scale, std::span<Real> y) {
  const size_t rows = k.size() / q.size();
  std::vector<Real> weight(rows);
  for (size_t s = 0; s < rows; ++s)
    for (size_t c = 0; c < q.size(); ++c) weight[s] += scale * q[c] * k[s * q.size() + c];
  const Real largest = *std::ranges::max_element(weight);
  Real sum = 0;
  for (Real& w : weight) sum += w = std::exp(w - largest);
  for (size_t c = 0; c < y.size(); ++c) {
    y[c] = 0;
    for (size_t s = 0; s < rows; ++s) y[c] += weight[s] / sum * v[s * y.size() + c];
  }
}

// dk and dv are added to.
template <class Real>
struct AttentionGradient {
  std::span<const Real> q, k, v;
  Real scale;
  std::span<const Real> dy;
  std::span<Real> dq, dk, dv;
};
// With p = softmax(s), s = scale q k': ds = p (dp - sum p dp), dp = dy v'.
template <class Real>
void attention_backward(const AttentionGradient<Real>& op) {
  const size_t keys = op.q.size(), values = op.dy.size(), rows = op.k.size() / keys;
  std::vector<Real> p(rows), dp(rows);
  for (size_t s = 0; s < rows; ++s)
    for (size_t c = 0; c < keys; ++c) p[s] += op.scale * op.q[c] * op.k[s * keys + c];
  const Real largest = *std::ranges::max_element(p);
  Real sum = 0, along = 0;
  for (Real& one : p) sum += one = std::exp(one - largest);
  for (size_t s = 0; s < rows; ++s) {
    p[s] /= sum;
    for (size_t c = 0; c < values; ++c) dp[s] += op.dy[c] * op.v[s * values + c];
    along += p[s] * dp[s];
  }
  std::ranges::fill(op.dq, Real(0));
  for (size_t s = 0; s < rows; ++s) {
    const Real ds = p[s] * (dp[s] - along);
    for (size_t c = 0; c < keys; ++c) {
      op.dq[c] += op.scale * ds * op.k[s * keys + c];
      op.dk[s * keys + c] += op.scale * ds * op.q[c];
    }
    for (size_t c = 0; c < values; ++c) op.dv[s * values + c] += p[s] * op.dy[c];
  }
}

}  // namespace deltasane::kernel::reference
