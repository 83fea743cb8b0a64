// For tests: the definition of the layer norm over whole problems, in float (plain) or double (the
// truth).
#pragma once

#include "kernel/norm/reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda::rows_definition {

template <class T>
Numbers<T> normalized_rows(const Numbers<float>& x, const Numbers<float>& weight,
                           const Numbers<float>& bias) {
  const Numbers<T> from = as<T>(x), w = as<T>(weight), b = as<T>(bias);
  Numbers<T> y(x.size());
  const int64_t C = int64_t(w.size());
  for (int64_t row = 0; row < int64_t(x.size()) / C; ++row)
    reference::layer_norm<T>(row_of(from, row, C), w, b, T(1e-5f), row_of(y, row, C));
  return y;
}

}  // namespace deltasane::kernel::cuda::rows_definition
