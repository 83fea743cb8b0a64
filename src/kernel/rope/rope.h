// Rotary positions (RoPE), in place, on the CPU.
//
//     x_i, x_j  <-  x_i cos - x_j sin,  x_j cos + x_i sin        j = i + rotary / 2
//
// for i < rotary / 2, with the angle p theta^(-2 i / rotary), p the token's absolute position.
// Channels from `rotary` on pass.
//
// x   (time, head, size): token t is at position + t
//
// Angles are computed in double. reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct Rope {
  View<float> x;
  int64_t position, rotary;
  double theta;
};
void rope(const Rope& op, const Cpu& cpu);

// x is the gradient of the result, and becomes that of the argument: it is rotated back.
void rope_backward(const Rope& op, const Cpu& cpu);

}  // namespace deltasane::kernel
