// Asynchronous copies from global into shared memory (cp.async and bulk copies), and prefetches
// into the L2 cache. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/cuda/barrier.cuh"

namespace deltasane::kernel::cuda {

// The L2 cache policy for data that is read once.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Sixteen bytes, both addresses multiples of 16; zeros where `wanted` is false. L2 fetches the 128
// bytes around them.
__device__ inline void copy_async(uint4* shared, const void* from, bool wanted, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(
                   uint32_t(__cvta_generic_to_shared(shared))),
               "l"(from), "r"(wanted ? 16 : 0), "l"(policy)
               : "memory");
}
__device__ inline void copy_async(uint4* shared, const uint4* from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(shared))),
      "l"(from)
      : "memory");
}
// Likewise; zeros where `wanted` is false.
__device__ inline void copy_async(uint4* shared, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   uint32_t(__cvta_generic_to_shared(shared))),
               "l"(from), "r"(wanted ? 16 : 0)
               : "memory");
}
// So many neighbouring pieces of 16 bytes, by so many neighbouring threads, a share each.
template <int threads, int pieces>
__device__ void copy_contiguous(void* shared, const void* from) {
  const int thread = threadIdx.x % threads;
  auto* const to = static_cast<uint4*>(shared) + thread;
  const auto* const of = static_cast<const uint4*>(from) + thread;
#pragma unroll
  for (int i = 0; i < pieces / threads; ++i) copy_async(to + threads * i, of + threads * i);
  constexpr int rest = pieces % threads, whole = pieces - rest;
  if (thread < rest) copy_async(to + whole, of + whole);
}
// The thread's copies since the last call become a group.
__device__ inline void commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most the `pending` youngest groups of the thread are in flight. Other threads see the
// data after a barrier.
template <int pending>
__device__ inline void wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// The thread arrives at the mbarrier when its copies so far (copy_async) are there; it does not wait.
__device__ inline void arrive_after_copies(Mbarrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

// Arrives at the mbarrier, whose phase completes when so many bytes of bulk copies are there too.
__device__ inline void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// A bulk copy by one thread; addresses and size are multiples of 16. The thread arrives at the
// mbarrier, whose phase completes when the bytes are there too. From compute capability 9.0 on.
__device__ inline void bulk_copy_async(void* shared, const void* from, uint32_t bytes,
                                       Mbarrier& barrier) {
  const uint32_t at = shared_address(&barrier);
  arrive_and_expect(at, bytes);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(at)
      : "memory");
}

// Likewise `rows` rows of `bytes` bytes each, of data that is read once; steps in bytes from row to row.
// The thread arrives once.
__device__ inline void bulk_copy_rows_async(void* shared, int shared_step, const void* from,
                                            int64_t from_step, int rows, uint32_t bytes,
                                            Mbarrier& barrier) {
  const uint32_t at = shared_address(&barrier);
  const uint64_t policy = evict_first_policy();
  uint32_t to = shared_address(shared);
  const char* row = static_cast<const char*>(from);
  arrive_and_expect(at, rows * bytes);
  if (from_step == bytes && shared_step == int(bytes)) bytes *= uint32_t(rows), rows = 1;
#pragma unroll 1
  for (int i = 0; i < rows; ++i, to += uint32_t(shared_step), row += from_step)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(row), "r"(bytes), "r"(at), "l"(policy)
        : "memory");
}

// Prefetch into L2. Address and size are multiples of 16. From compute capability 9.0 on.
__device__ inline void prefetch_l2(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
// Likewise the cache line of 128 bytes at any address.
__device__ inline void prefetch_l2_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

}  // namespace deltasane::kernel::cuda
