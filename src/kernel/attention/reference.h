// The definition of attention for one query of one head, in float or double.
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

}  // namespace deltasane::kernel::reference
