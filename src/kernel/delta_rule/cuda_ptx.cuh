// Instructions that CUDA C++ has no words for: all of the assembly of the recurrence.
#pragma once

#include <nv/target>

#include <cstdint>

namespace deltasane::kernel::cuda {

// Within an ulp; what is tiny counts as 0.
__device__ inline float about_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Both within 2^-22; likewise.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// No instruction, but the compiler finds x here, and not later where it is used.
__device__ inline void find_here(float& x) { asm volatile("" : "+f"(x)); }
__device__ inline void find_here(int& x) { asm volatile("" : "+r"(x)); }

// A barrier of some of a block's threads, whole warps. The number known to the compiler: otherwise
// it takes all barriers that a block may have.
template <int number, int threads>
__device__ void meet_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(number), "n"(threads) : "memory");
}
template <int threads>
__device__ void meet_at(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

__device__ inline uint32_t shared_address(const void* at) {
  return uint32_t(__cvta_generic_to_shared(at));
}

// A signal in shared memory is given again and again: each time when so many have arrived at it.
// Who waits for it, by whether it was given an even number of times before (round 0) or an odd one
// (1), sees what they wrote; no round before the first one has to be waited for. All know that a
// signal is set up when they have met at a barrier.
using Signal = uint64_t;
__device__ inline void set_up(Signal& signal, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&signal)), "r"(arrivals)
               : "memory");
}
__device__ inline void arrive(Signal& signal) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(&signal))
      : "memory");
}
__device__ inline bool given(uint32_t signal, uint32_t round) {
  uint32_t yes;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(yes)
      : "r"(signal), "r"(round)
      : "memory");
  return yes;
}
// Likewise, after a while. From compute capability 9.0 on.
__device__ inline bool given_soon(uint32_t signal, uint32_t round) {
  uint32_t yes;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(yes)
      : "r"(signal), "r"(round)
      : "memory");
  return yes;
}
__device__ inline void wait_for(const Signal& signal, uint32_t round) {
  const uint32_t at = shared_address(&signal);
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (while (!given_soon(at, round)){}),
                    (while (!given(at, round)){}))
}
// So many bytes of memory come into shared memory, all multiples of 16, by one thread: it arrives
// at the signal, and that waits for them too. From compute capability 9.0 on.
__device__ inline void copy_at_once(void* shared, const void* from, uint32_t bytes,
                                    Signal& signal) {
  const uint32_t at = shared_address(&signal);
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(at)
      : "memory");
}
// Once, between the thread's signals being set up and its first such copy.
__device__ inline void show_signals_to_copies() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void store_word(uint32_t at, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}

// Memory that some block will read soon comes into the cache that all blocks share. Address and
// size are multiples of 16. From compute capability 9.0 on.
__device__ inline void bring_near(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
// Likewise the 128 bytes of a line of that cache; anywhere.
__device__ inline void bring_line_near(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

// Four times 8 x 8 numbers of 16 bits: lane l says where in shared memory row l % 8 of matrix l / 8
// is, and has, of each matrix, two neighbours of row l / 4, from column 2 (l % 4) on. Transposes:
// of the transpose of what lies in memory.
__device__ inline void load_matrices_at_once(uint32_t (&x)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
__device__ inline void load_transposes_at_once(uint32_t (&x)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
// From compute capability 9.0 on.
__device__ inline void store_matrices_at_once(uint32_t at, const uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x[0]),
               "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
__device__ inline void store_transposes_at_once(uint32_t at, const uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
// Of one such matrix, the transpose.
__device__ inline uint32_t transpose(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// c (16, 8) += a (16, 16) b (16, 8): bf16 factors, the four matrices of a column after column.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace deltasane::kernel::cuda
