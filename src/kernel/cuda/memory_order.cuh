// Global memory that blocks of running kernels write for each other. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace deltasane::kernel::cuda {

// A flag for other memory: a thread that reads it with load_acquire sees all that was written
// before store_release, by the storing thread and by those it had met at a barrier.
__device__ inline void store_release(uint32_t* at, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline uint32_t load_acquire(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// Numbers that carry their own flag: the lowest bit of a number is 1 in the first round, 0 in the
// second, and so on in turns. A reader that sees the bit of its round sees the number of its round,
// without a fence; no reader may still see a number of two rounds ago. The bit reads as 0, whatever
// the round, so that results do not depend on earlier rounds.
__device__ inline void store_tagged(float* at, float value, uint32_t round) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at),
               "r"((__float_as_uint(value) & ~1u) | (~round & 1u))
               : "memory");
}
struct TaggedPair {
  uint32_t first = 0, second = 0;
  __device__ bool has(uint32_t round) const { return (first ^ round) & (second ^ round) & 1u; }
  __device__ float2 values() const {
    return {__uint_as_float(first & ~1u), __uint_as_float(second & ~1u)};
  }
};
// Two neighbours, the first at a multiple of 8 bytes; past L1, which does not see other blocks'
// writes.
__device__ inline TaggedPair load_tagged(const float* at) {
  TaggedPair pair;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(pair.first), "=r"(pair.second)
               : "l"(at)
               : "memory");
  return pair;
}
// Between two loads of a number that was not there. The emulation of a GPU runs other threads.
__device__ inline void wait_for_others() {}

// Two neighbours of memory that no block writes. Volatile: not to be moved behind a poll.
__device__ inline float2 weight_at(const float* at) {
  float2 both;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(both.x), "=f"(both.y) : "l"(at));
  return both;
}
// Of a state, which other blocks write: not from L1.
__device__ inline float2 shift_at(const float* at) {
  float2 both;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(both.x), "=f"(both.y) : "l"(at));
  return both;
}

}  // namespace deltasane::kernel::cuda
