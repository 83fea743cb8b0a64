// A short causal convolution of each channel, followed by silu, on the CPU.
//
//     y[t] = silu( sum over j < taps of weight[j] x[t - taps + 1 + j] )
//
// x, y     (time, C), not the same memory
// weight   (taps, C): the last row meets the newest input
// before   (taps - 1, C): the inputs before x, oldest first. Afterwards: those before the next call.
//
// One tap of 1 is silu alone. A sequence cut into calls anywhere gives the same bits.
// reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct ShortConv {
  View<const float> x;
  int64_t taps;
  const float* weight;
  float* before;
  View<float> y;
};
void short_conv(const ShortConv& op, const Cpu& cpu);

// Of a whole sequence: the inputs before x are zero. Sums over time are taken in an order that depends
// on the shape alone.
struct ShortConvGradient {
  View<const float> x;
  int64_t taps;
  const float* weight;
  View<float> dy;  // becomes the gradient of the sum inside of silu
  View<float> dx;  // overwritten; not the memory of the others
  float* dweight;  // (taps, C), added to; null: not wanted
};
void short_conv_backward(const ShortConvGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
