// Stands for the header of this name, which says what these do.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline uint4 load_once(const void* from) { return __ldg(static_cast<const uint4*>(from)); }

}  // namespace deltasane::kernel::cuda
