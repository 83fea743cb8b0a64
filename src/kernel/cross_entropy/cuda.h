// The loss of cross_entropy.h on a GPU.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// logits (rows, vocabulary) are overwritten with their gradient if with_gradient, else unchanged.
// loss: (rows).
template <class Real>
struct CrossEntropy {
  int64_t rows, vocabulary;
  Real* logits;
  const int32_t* target;
  const float* weight;  // null: all 1
  float wrap = 0;
  double* loss;
  bool with_gradient = true;
};
template <class Real>
void cross_entropy(const CrossEntropy<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
