// Stands for CUDA's header of this name: what the kernels under test use of it, on the host.
#pragma once

#include "emulation/block.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  deltasane::emulation::copy_async(to, from, bytes, zeros);
}
inline void __pipeline_commit() { deltasane::emulation::commit_group(); }
inline void __pipeline_wait_prior(size_t pending) { deltasane::emulation::wait_group(pending); }
