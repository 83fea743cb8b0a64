// For tests: the definition of the activations over many numbers, in float (plain) or double (the
// truth).
#pragma once

#include "kernel/activation/reference.h"
#include "kernel/cuda/gpu_test_case.h"

namespace deltasane::kernel::cuda::rows_definition {

template <class T>
Numbers<T> activated(Activation which, const Numbers<float>& x) {
  Numbers<T> y = as<T>(x);
  for (T& value : y) value = reference::activate(which, value);
  return y;
}

}  // namespace deltasane::kernel::cuda::rows_definition
