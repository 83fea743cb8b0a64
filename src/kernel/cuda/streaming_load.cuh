// Loads of what is read once. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

// Sixteen bytes that need not stay in the caches.
__device__ inline uint4 load_once(const void* from) {
  return __ldcs(static_cast<const uint4*>(from));
}

}  // namespace deltasane::kernel::cuda
