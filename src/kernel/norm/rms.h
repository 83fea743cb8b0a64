// RMS norm of rows or of heads, with or without a gate, and the L2 norm of heads, on the CPU.
//
//     rms_norm   y = x / sqrt(mean(x^2) + eps) weight              one weight for all heads
//                y = x / sqrt(mean(x^2) + eps) weight act(gate)    where there is a gate
//     l2_norm    x = x / sqrt(sum(x^2) + eps) scale                per head, in place
//
// x, y, gate   (rows, heads size); y may be the memory of x
// weight       (size)
//
// A whole row is one head. A weight that is stored as w for 1 + w has the 1 added by the caller.
// rms_reference.h is the definition.
#pragma once

#include "kernel/activation/gated.h"
#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct RmsNorm {
  View<const float> x;
  int64_t size;  // channels of a head
  const float* weight;
  float eps;
  View<float> y;
  View<const float> gate{};
  GateActivation activation = GateActivation::silu;
};
void rms_norm(const RmsNorm& op, const Cpu& cpu);

void l2_norm(View<float> x, int64_t size, float eps, float scale, const Cpu& cpu);

}  // namespace deltasane::kernel
