// Stands for the header of this name, which says what these do.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline uint64_t read_once() { return 0; }
inline void copy_async(uint4* shared, const void* from, bool wanted, uint64_t) {
  emulation::copy_later(shared, from, sizeof(uint4), wanted ? 0 : sizeof(uint4));
}
inline void copy_async(uint4* shared, const uint4* from) {
  emulation::copy_later(shared, from, sizeof(uint4), 0);
}
inline void close_group() { emulation::close_copies(); }
template <int younger>
void wait_for_groups() {
  emulation::wait_for_copies(younger);
}

// Blocks and kernels run one after the other.
inline void write_released(uint32_t* at, uint32_t value) { *at = value; }
inline uint32_t read_acquired(const uint32_t* at) { return *at; }

}  // namespace deltasane::kernel::cuda
