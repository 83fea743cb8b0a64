#include "kernel/matmul/low_bits/input_squares.h"

namespace deltasane::kernel {

void InputSquares::add(const Weights& w, View<const float> x) {
  Of& of = by_rows_[w.rows()];
  of.sums.resize(size_t(w.in()));
  of.tokens += x.shape[0];
  for (int64_t t = 0; t < x.shape[0]; ++t)
    for (int64_t i = 0; i < w.in(); ++i) of.sums[size_t(i)] += double(x(t, i)) * double(x(t, i));
}

const InputSquares::Of* InputSquares::of(const Weights& w) const {
  const auto found = by_rows_.find(w.rows());
  return found == by_rows_.end() ? nullptr : &found->second;
}

}  // namespace deltasane::kernel
