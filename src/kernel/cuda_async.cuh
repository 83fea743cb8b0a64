// Copies into shared memory that a thread does not wait for, and numbers that blocks of one kernel
// hand to each other: names for the GPU's instructions. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace deltasane::kernel::cuda {

// What lies in shared memory, by an address that is found here and kept: the compiler would find it
// again at every use, which takes as long as the use itself.
template <class T>
__device__ T& kept_address(T& shared) {
  auto at = uint32_t(__cvta_generic_to_shared(&shared));
  asm volatile("" : "+r"(at));
  return *static_cast<T*>(__cvta_shared_to_generic(at));
}

// How the cache is to treat what is read once and not again.
__device__ inline uint64_t read_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Sixteen bytes, both addresses multiples of 16; zeros where they are not wanted. The GPU's cache
// takes the 128 bytes about them from memory together.
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
// What the thread has asked for since the last call is a group.
__device__ inline void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all groups of the thread but the `younger` last ones are there, for this thread to read.
template <int younger>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(younger) : "memory");
}

// A word that says something of other memory: who reads it with read_acquired sees all that was
// written before write_released, by its thread and by those that it had met at a barrier.
__device__ inline void write_released(uint32_t* at, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline uint32_t read_acquired(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// Numbers that blocks of one kernel hand to each other. A place has one after the other, and a
// number's lowest bit says which: 1 in the first one, 0 in the second, and so on in turns. So who
// sees the bit that the turn has sees the number, and nobody waits for anything else; it takes that
// nobody can see the number of two turns ago. For who reads a number that bit is 0, whatever the
// turn: results do not depend on what was read before.
__device__ inline void hand_on(float* at, float value, uint32_t turn) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at),
               "r"((__float_as_uint(value) & ~1u) | (~turn & 1u))
               : "memory");
}
struct HandedPair {
  uint32_t first = 0, second = 0;
  __device__ bool has(uint32_t turn) const { return (first ^ turn) & (second ^ turn) & 1u; }
  __device__ float2 values() const {
    return {__uint_as_float(first & ~1u), __uint_as_float(second & ~1u)};
  }
};
// Two neighbours, the first at a multiple of 8 bytes; past the first cache, which is not told of
// other blocks' writes.
__device__ inline HandedPair read_handed(const float* at) {
  HandedPair pair;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(pair.first), "=r"(pair.second)
               : "l"(at)
               : "memory");
  return pair;
}

}  // namespace deltasane::kernel::cuda
