// Stands for the header of this name, which says what these do.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline uint32_t shared_address(const void* at) { return emulation::shared_address(at); }
template <class Number>
Number hoist(Number x) {
  return x;
}
template <class T>
T& hoist_address(T& shared) {
  return shared;
}

}  // namespace deltasane::kernel::cuda
