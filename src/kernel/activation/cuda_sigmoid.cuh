// 1 / (1 + exp(-x)) in a kernel. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

}  // namespace deltasane::kernel::cuda
