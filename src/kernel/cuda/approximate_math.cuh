// Functions that the GPU has an approximate instruction for; subnormal numbers count as 0. For .cu
// files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

// Within an ulp.
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Both within 2^-22.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// No instruction: the compiler computes x here, and not later where it is used.
__device__ inline void optimization_barrier(float& x) { asm volatile("" : "+f"(x)); }
__device__ inline void optimization_barrier(int& x) { asm volatile("" : "+r"(x)); }

}  // namespace deltasane::kernel::cuda
