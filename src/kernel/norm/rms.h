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
#include "kernel/store.h"
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

// Sums over rows are taken in an order that depends on the shape alone. dx may be the memory of dy
// where it is overwritten and there is no gate.
struct RmsNormGradient {
  View<const float> x;  // as rms_norm was given it
  int64_t size;
  const float* weight;
  float eps;
  View<const float> dy;
  View<float> dx;
  Store store;     // of dx
  float* dweight;  // (size), added to
  View<const float> gate{};
  GateActivation activation = GateActivation::silu;
  View<float> dgate{};  // overwritten; not the memory of the others
};
void rms_norm_backward(const RmsNormGradient& op, const Cpu& cpu);

void l2_norm(View<float> x, int64_t size, float eps, float scale, const Cpu& cpu);

// x as l2_norm was given it; dy becomes the gradient of x.
void l2_norm_backward(View<const float> x, int64_t size, float eps, float scale, View<float> dy,
                      const Cpu& cpu);

}  // namespace deltasane::kernel
