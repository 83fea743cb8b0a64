// The definition of the embedding and of its gradient, in float or double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace deltasane::kernel::reference {

// x[row] = table[token of row]; x: (rows, C)
template <class Real>
void embed(std::span<const int32_t> tokens, std::span<const Real> table, std::span<Real> x) {
  if (tokens.empty()) return;
  const size_t channels = x.size() / tokens.size();
  for (size_t row = 0; row < tokens.size(); ++row)
    std::ranges::copy(table.subspan(size_t(tokens[row]) * channels, channels),
                      x.begin() + int64_t(row * channels));
}

// dtable[token of row] += dx[row], in the order of the rows
template <class Real>
void embed_backward(std::span<const int32_t> tokens, std::span<const Real> dx,
                    std::span<Real> dtable) {
  if (tokens.empty()) return;
  const size_t channels = dx.size() / tokens.size();
  for (size_t i = 0; i < dx.size(); ++i)
    dtable[size_t(tokens[i / channels]) * channels + i % channels] += dx[i];
}

}  // namespace deltasane::kernel::reference
