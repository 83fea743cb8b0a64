// Addresses of shared memory as PTX takes them: 32 bits in the shared window. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace deltasane::kernel::cuda {

__device__ inline uint32_t shared_address(const void* at) {
  return uint32_t(__cvta_generic_to_shared(at));
}

// A number computed here and kept in a register.
__device__ inline uint32_t hoist(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
template <class T>
__device__ T* hoist(T* at) {
  asm volatile("" : "+l"(at));
  return at;
}
// The same object, with its address computed here and kept in a register. Without it the compiler
// computes the address again at every use, which takes as long as the use itself.
template <class T>
__device__ T& hoist_address(T& shared) {
  const uint32_t at = hoist(uint32_t(__cvta_generic_to_shared(&shared)));
  return *static_cast<T*>(__cvta_shared_to_generic(at));
}

}  // namespace deltasane::kernel::cuda
