// An activation of a gate and its derivative in a kernel. For .cu files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/activation/gated.h"

namespace deltasane::kernel::cuda {

struct GateValue {
  float value, derivative;
};
__device__ inline GateValue gate_value(GateActivation activation, float gate) {
  const float s = sigmoid(gate), slope = s * (1.0f - s);
  if (activation == GateActivation::silu) return {gate * s, fmaf(gate, slope, s)};
  return {s, slope};
}

}  // namespace deltasane::kernel::cuda
