// The log decay of the gated rules (decay.h) in a kernel. For .cu files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/sane/cuda_tau.cuh"

namespace deltasane::kernel::cuda {

// -rate softplus(x), or, where there is a lower bound, bound sigmoid(rate x).
__device__ inline float log_decay(float x, float rate, float bound) {
  return bound < 0 ? bound * sigmoid(rate * x) : -rate * softplus(x);
}

}  // namespace deltasane::kernel::cuda
