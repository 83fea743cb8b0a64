// Barriers: of some warps of a block (named barriers), of producers and consumers (mbarrier), and
// of a cluster's blocks. For .cu files.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include <cstdint>

#include "kernel/cuda/shared_address.cuh"

namespace deltasane::kernel::cuda {

// A named barrier of `threads` threads of a block, whole warps. With a number that the compiler
// does not know, the kernel reserves all 16 barriers of a block.
template <int number, int threads>
__device__ void named_barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(number), "n"(threads) : "memory");
}
template <int threads>
__device__ void named_barrier(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

// Arrives and does not wait; who waits there (named_barrier, which these threads are counted in) sees
// what was written before.
template <int threads>
__device__ void named_barrier_arrive(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

// An mbarrier in shared memory: a phase completes when `arrivals` threads have arrived. A waiting
// thread names the parity of the phase, 0 for the first one, and then sees what was written before
// the arrivals; the phase before the first counts as complete. After mbarrier_init a block needs a
// barrier before other threads use it.
using Mbarrier = uint64_t;
__device__ inline void mbarrier_init(Mbarrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals)
               : "memory");
}
__device__ inline void mbarrier_arrive(Mbarrier& barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(&barrier))
      : "memory");
}
__device__ inline bool mbarrier_test_wait(uint32_t barrier, uint32_t parity) {
  uint32_t complete;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete;
}
// May suspend the thread for a while. From compute capability 9.0 on.
__device__ inline bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t complete;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete;
}
__device__ inline void mbarrier_wait(const Mbarrier& barrier, uint32_t parity) {
  const uint32_t at = shared_address(&barrier);
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (while (!mbarrier_try_wait(at, parity)){}),
                    (while (!mbarrier_test_wait(at, parity)){}))
}
// Makes the thread's mbarrier_init visible to bulk copies: once, before the first of them.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// All threads of all blocks of a cluster (compute capability 9.0). What was written before it, also
// to shared memory of another block, is seen after it.
__device__ inline void cluster_barrier() {
  __syncwarp();  // the instruction is one of whole warps
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                                                "barrier.cluster.wait.acquire.aligned;" ::
                                                    : "memory");))
}
// The address, in the cluster's block of this rank, of what is at `own` in this block's shared
// memory.
template <class T>
__device__ inline T* map_shared_rank(T* own, int rank) {
  uint64_t there = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm("mapa.u64 %0, %1, %2;"
                                       : "=l"(there)
                                       : "l"(own), "r"(rank));))
  return reinterpret_cast<T*>(there);
}

}  // namespace deltasane::kernel::cuda
