// Rows multiplied by an activation of other rows, on the CPU.
//
//     y = act(gate) x        act = silu (x sigmoid x) or sigmoid
//
// gate, x, y   (rows, C); y may be one of the others' memory
//
// With silu this is the product inside of SwiGLU. reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

enum class GateActivation { silu, sigmoid };
void multiply_by_gate(GateActivation activation, View<const float> gate, View<const float> x,
                      View<float> y, const Cpu& cpu);

// dgate and dx, (rows, C), are overwritten; either may be the memory of dy.
struct GateGradient {
  GateActivation activation;
  View<const float> gate, x, dy;
  View<float> dgate, dx;
};
void multiply_by_gate_backward(const GateGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
