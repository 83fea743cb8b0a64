// tau = alpha softplus(z) + 1 and its derivative in a kernel. tau in double, as on the CPU: there
// are few of them. Only fused single-token kernels, which wait for it, use float. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

__device__ inline double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
__device__ inline float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

template <class Real>
__device__ Real tau_of(Real z, Real alpha) {
  return alpha * softplus(z) + Real(1);
}

// alpha sigmoid(z)
__device__ inline float tau_derivative(float z, float alpha) { return alpha / (1.0f + expf(-z)); }

}  // namespace deltasane::kernel::cuda
