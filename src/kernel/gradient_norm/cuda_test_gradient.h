// For tests of optimisers on a GPU: their buffers, and clipping by its definition.
#pragma once

#include <cmath>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/gradient_norm/cuda.h"

namespace deltasane::kernel::cuda {

class GpuOptimizerSteps : public GpuTest {
 protected:
  struct On {
    GpuTensor<float> w, g, first, second;
    GpuTensor<bf16> copy;
  };
  On begun(const Numbers<float>& w) const {
    const Numbers<float> zero(w.size(), 0.0f);
    return {upload<float>(w), upload<float>(zero), upload<float>(zero), upload<float>(zero),
            upload<bf16>(zero)};
  }
};

inline double norm_of(const Numbers<float>& g) {
  double squares = 0;
  for (const float value : g) squares += double(value) * double(value);
  return std::sqrt(squares);
}

// The scale that clips a gradient.
template <class T>
T clip_of(const Numbers<float>& g, double limit) {
  const double norm = norm_of(g);
  return limit > 0 && norm > limit ? T(limit / (norm + 1e-6)) : T(1);
}

}  // namespace deltasane::kernel::cuda
