// Stands for CUDA's header of this name: what the kernels under test use of it, on the host.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "emulation/block.h"
#include "emulation/warp.h"

#define __global__
#define __device__
#define __host__
#define __shared__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using std::max;
using std::min;

inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __vimax3_s32(int x, int y, int z) { return std::max(x, std::max(y, z)); }
inline unsigned __vimax3_u16x2(unsigned x, unsigned y, unsigned z) {
  const auto most = [&](int shift) {
    return std::max({x >> shift & 0xffffu, y >> shift & 0xffffu, z >> shift & 0xffffu});
  };
  return most(16) << 16 | most(0);
}
inline unsigned __vimin3_u32(unsigned x, unsigned y, unsigned z) {
  return std::min(x, std::min(y, z));
}
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y = y << 1 | (x >> i & 1);
  return y;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t(y) << 32 | x;
  unsigned z = 0;
  for (unsigned i = 0; i < 4; ++i)
    z |= unsigned(bytes >> (selector >> (4 * i) & 7) * 8 & 255) << (8 * i);
  return z;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
[[noreturn]] inline void __trap() { throw std::runtime_error("a kernel: trap"); }
inline float __fdividef(float x, float y) { return x / y; }
extern "C" inline float __expf(float x) noexcept { return std::exp(x); }  // C has this name too
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fsub_rn(float x, float y) { return x - y; }

template <class T>
T __ldg(const T* at) {
  deltasane::emulation::expect_aligned(at, sizeof(T));
  return *at;
}
template <class T>
void __stcs(T* at, T x) {
  deltasane::emulation::expect_aligned(at, sizeof(T));
  *at = x;
}
inline unsigned atomicAdd(unsigned* at, unsigned x) { return std::exchange(*at, *at + x); }
inline int atomicAdd(int* at, int x) { return std::exchange(*at, *at + x); }
inline int atomicMax(int* at, int x) { return std::exchange(*at, std::max(*at, x)); }
inline unsigned atomicOr(unsigned* at, unsigned x) { return std::exchange(*at, *at | x); }

inline void __syncthreads() { deltasane::emulation::barrier_sync(0, 0); }
inline void __syncwarp(unsigned = ~0u) { deltasane::emulation::sync_warp(); }
inline unsigned __ballot_sync(unsigned, int x) { return deltasane::emulation::ballot(x); }
inline int __all_sync(unsigned, int x) { return deltasane::emulation::ballot(x) == ~0u; }

namespace deltasane::emulation {
template <class T>
T shuffle_of(T x, unsigned from) {
  if constexpr (sizeof(T) == 8) {
    const auto bits = std::bit_cast<uint64_t>(x);
    const uint32_t low = shuffle(uint32_t(bits), from);
    return std::bit_cast<T>(low | uint64_t(shuffle(uint32_t(bits >> 32), from)) << 32);
  } else {
    return std::bit_cast<T>(shuffle(std::bit_cast<uint32_t>(x), from));
  }
}
}  // namespace deltasane::emulation

template <class T>
T __shfl_sync(unsigned, T x, int from) {
  return deltasane::emulation::shuffle_of(x, unsigned(from) % 32);
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int bits) {
  return deltasane::emulation::shuffle_of(x, threadIdx.x % 32 ^ unsigned(bits));
}
template <class T>
T __shfl_up_sync(unsigned, T x, unsigned away) {
  const unsigned lane = threadIdx.x % 32;
  return deltasane::emulation::shuffle_of(x, lane >= away ? lane - away : lane);
}
template <class T>
T __shfl_down_sync(unsigned, T x, unsigned away) {
  const unsigned lane = threadIdx.x % 32;
  return deltasane::emulation::shuffle_of(x, lane + away < 32 ? lane + away : lane);
}
