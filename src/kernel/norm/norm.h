// Layer norm, row by row, on the CPU.
//
//     y = xhat weight + bias        xhat = (x - mean) / sqrt(variance + eps)
//
// x, y           (rows, C); they may be the same memory
// weight, bias   (C)
//
// The moments of a head, which a group norm needs, are in cpu_moments.h and cuda_moments.cuh, for
// kernels that fuse it with what follows (time_mix). reference.cpp is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

void layer_norm(View<const float> x, const float* weight, const float* bias, float eps,
                View<float> y, const Cpu& cpu);

// "Added to": the result is added to what is there. Parameters are shared by all rows and calls,
// the residual stream by all operators. Sums over rows are taken in an order that depends on the
// shape alone.
struct LayerNormGradient {
  View<const float> x;  // (rows, C), as layer_norm was given it
  const float* weight;  // (C)
  float eps;
  View<const float> dy;    // (rows, C)
  View<float> dx;          // (rows, C), added to
  float *dweight, *dbias;  // (C), added to
};
void layer_norm_backward(const LayerNormGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
