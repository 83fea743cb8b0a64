// Stands for the header of this name, which says what these do.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"
#include "kernel/cuda/barrier.cuh"

namespace deltasane::kernel::cuda {

inline uint64_t evict_first_policy() { return 0; }
inline void copy_async(uint4* shared, const void* from, bool wanted, uint64_t) {
  emulation::copy_async(shared, from, sizeof(uint4), wanted ? 0 : sizeof(uint4));
}
inline void copy_async(uint4* shared, const uint4* from) {
  emulation::copy_async(shared, from, sizeof(uint4), 0);
}
inline void copy_async(uint4* shared, const void* from, bool wanted) {
  emulation::copy_async(shared, from, sizeof(uint4), wanted ? 0 : sizeof(uint4));
}
template <int threads, int pieces>
void copy_contiguous(void* shared, const void* from) {
  for (int i = int(threadIdx.x) % threads; i < pieces; i += threads)
    copy_async(static_cast<uint4*>(shared) + i, static_cast<const uint4*>(from) + i);
}
inline void commit_group() { emulation::commit_group(); }
template <int pending>
void wait_group() {
  emulation::wait_group(pending);
}
inline void arrive_after_copies(Mbarrier& barrier) { emulation::arrive_after_copies(&barrier); }

inline void bulk_copy_async(void* shared, const void* from, uint32_t bytes, Mbarrier& barrier) {
  emulation::bulk_copy_async(shared, from, bytes, &barrier);
}
inline void bulk_copy_rows_async(void* shared, int shared_step, const void* from, int64_t from_step,
                                 int rows, uint32_t bytes, Mbarrier& barrier) {
  if (rows <= 0)
    fail(Fault::device, "a kernel: bulk copy of ", rows, " rows, expected at least one");
  for (int i = 0; i < rows; ++i)
    emulation::bulk_copy_async(static_cast<char*>(shared) + i * shared_step,
                               static_cast<const char*>(from) + i * from_step, bytes, &barrier,
                               i + 1 == rows);
}

// Only reads the first and the last byte, so that a sanitizer sees addresses that are not valid.
inline void prefetch_l2(const void* from, uint32_t bytes) {
  const volatile char* const at = static_cast<const char*>(from);
  (void)at[0], (void)at[bytes - 1];
}
inline void prefetch_l2_line(const void* from) { prefetch_l2(from, 1); }

}  // namespace deltasane::kernel::cuda
