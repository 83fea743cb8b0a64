// AdamW: one step of one tensor, on the CPU.
//
//     m <- beta1 m + (1 - beta1) g            v <- beta2 v + (1 - beta2) g^2
//     m^ = m / (1 - beta1^step)               v^ = v / (1 - beta2^step)
//     w <- (1 - rate decay) w - rate m^ / (sqrt(v^) + epsilon)
//
// w, g, m, v   (count), packed; no two overlap. m and v begin as 0.
//
// reference.h is the definition.
#pragma once

#include <cstdint>

#include "kernel/cpu_device.h"

namespace deltasane::kernel {

// Of a step, shared by all tensors.
struct AdamwParams {
  double rate, beta1, beta2, epsilon;
  int64_t step;  // from 1
};

struct AdamwStep {
  AdamwParams params;
  double decay = 0, rate_factor = 1;  // of this tensor; its rate is rate * rate_factor
  int64_t count = 0;
  float* w = nullptr;
  const float* g = nullptr;
  float *m = nullptr, *v = nullptr;
};
void adamw_step(const AdamwStep& op, const Cpu& cpu);

}  // namespace deltasane::kernel
