// The loss of a language model, and its gradient in place.
//
//     loss = weight (log sum_j exp(x_j) - x_target)  +  weight wrap max_j(x_j)^2 / 2
//
// The second term ("L2-wrap", 1e-4 in RWKV's own training) keeps the largest logit from drifting
// off; only its gradient is wanted, and `loss` does not hold it. The largest logit is the first of
// equals. A row of weight 0 has loss 0 and gradient 0, whatever it holds.
// reference.cpp is the definition.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct CrossEntropy {
  View<float> logits;               // (rows, vocabulary); the gradient takes their place
  std::span<const int32_t> target;  // (rows)
  std::span<const float> weight;    // (rows)
  float wrap = 0;
  std::span<double> loss;  // (rows), overwritten
};
void cross_entropy(const CrossEntropy& op, const Cpu& cpu);

}  // namespace deltasane::kernel
