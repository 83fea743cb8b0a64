// Stands for the header of this name, which says what these do. Clusters are not emulated.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

namespace deltasane::kernel::cuda {

template <int number, int threads>
void named_barrier() {
  emulation::barrier_sync(number, threads);
}
template <int threads>
void named_barrier(int number) {
  emulation::barrier_sync(unsigned(number), threads);
}

template <int threads>
void named_barrier_arrive(int number) {
  emulation::barrier_arrive(unsigned(number), threads);
}

using Mbarrier = uint64_t;
inline void mbarrier_init(Mbarrier& barrier, int arrivals) {
  emulation::mbarrier_init(&barrier, unsigned(arrivals));
}
inline void mbarrier_arrive(Mbarrier& barrier) { emulation::mbarrier_arrive(&barrier); }
inline void mbarrier_wait(const Mbarrier& barrier, uint32_t parity) {
  emulation::mbarrier_wait(&barrier, parity);
}
inline void fence_mbarrier_init() {}

}  // namespace deltasane::kernel::cuda
