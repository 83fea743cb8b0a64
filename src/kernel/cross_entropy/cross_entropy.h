// The loss of a language model, and its gradient in place.
//
//     loss = weight (log sum_j exp(x_j) - x_target)  +  weight wrap max_j(x_j)^2 / 2
//
// The second term ("L2-wrap") keeps the largest logit from drifting off; only its gradient is
// computed, and `loss` does not include it. Of equal largest logits the first counts. A row of
// weight 0 has loss 0 and gradient 0, whatever its logits are. reference.cpp is the definition.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct CrossEntropy {
  View<float> logits;               // (rows, vocabulary); overwritten with the gradient
  std::span<const int32_t> target;  // (rows)
  std::span<const float> weight;    // (rows)
  float wrap = 0;
  std::span<double> loss;  // (rows), overwritten
};
void cross_entropy(const CrossEntropy& op, const Cpu& cpu);

}  // namespace deltasane::kernel
