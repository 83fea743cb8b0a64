// Blocks of a cluster: they run at the same time and see each other's shared memory (compute
// capability 9.0). For .cu files.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include <cstdint>

namespace deltasane::kernel::cuda {

// For all threads of all blocks. What was written before it, in any block's shared memory too, is
// seen after it.
__device__ inline void cluster_barrier() {
  __syncwarp();  // warps come to it as one
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                                                "barrier.cluster.wait.acquire.aligned;" ::
                                                    : "memory");))
}

// Where the block with this rank has what lies at `own` in this block's shared memory.
template <class T>
__device__ inline T* in_block_of_cluster(T* own, int rank) {
  uint64_t there = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm("mapa.u64 %0, %1, %2;"
                                       : "=l"(there)
                                       : "l"(own), "r"(rank));))
  return reinterpret_cast<T*>(there);
}

}  // namespace deltasane::kernel::cuda
