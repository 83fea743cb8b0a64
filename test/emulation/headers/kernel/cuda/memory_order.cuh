// Stands for the header of this name, which says what these do: blocks and kernels run one after
// the other.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline void store_release(uint32_t* at, uint32_t value) { *at = value; }
inline uint32_t load_acquire(const uint32_t* at) { return *at; }

}  // namespace deltasane::kernel::cuda
