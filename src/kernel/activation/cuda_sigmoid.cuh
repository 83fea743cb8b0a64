// 1 / (1 + exp(-x)) in a kernel. For .cu files.
#pragma once

#include "kernel/cuda/approximate_math.cuh"

namespace deltasane::kernel::cuda {

// The division is the instruction's, within an ulp: an exact one takes as long as all the rest.
__device__ inline float sigmoid(float x) { return reciprocal_approx(1.0f + expf(-x)); }

}  // namespace deltasane::kernel::cuda
