// Vectorized access to rows of channels: a thread has eight channels, loaded and stored sixteen
// bytes at a time; eight threads have a head of 64; a block has a whole row. Arithmetic is float.
// For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/error.h"
#include "base/half.h"
#include "kernel/cuda/block_sum.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int octet = 8;
inline constexpr int max_channels = 1024 * octet;  // of a row, which is a block's

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
__device__ inline void store_one(float* to, float x) { *to = x; }
__device__ inline void store_one(bf16* to, float x) {
  to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// Eight channels as they are in memory: half the registers where they are bf16.
template <class Real>
struct Packed;
template <>
struct Packed<float> {
  float4 low = {}, high = {};
  Packed() = default;
  __device__ Packed(const float4& first, const float4& second) : low(first), high(second) {}
  __device__ explicit Packed(const float* from)
      : low(reinterpret_cast<const float4*>(from)[0]),
        high(reinterpret_cast<const float4*>(from)[1]) {}
  __device__ void load_constant(const float* from) {  // of global memory that no kernel writes
    low = __ldg(reinterpret_cast<const float4*>(from));
    high = __ldg(reinterpret_cast<const float4*>(from) + 1);
  }
  __device__ void store(float* to) const {
    reinterpret_cast<float4*>(to)[0] = low, reinterpret_cast<float4*>(to)[1] = high;
  }
  __device__ void unpack(float (&x)[octet]) const {
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  }
};
template <>
struct Packed<bf16> {
  uint4 bits = {};
  Packed() = default;
  __device__ explicit Packed(const bf16* from) : bits(*reinterpret_cast<const uint4*>(from)) {}
  __device__ void load_constant(const bf16* from) {
    bits = __ldg(reinterpret_cast<const uint4*>(from));
  }
  __device__ void store(bf16* to) const { *reinterpret_cast<uint4*>(to) = bits; }
  __device__ void unpack(float (&x)[octet]) const {
    const uint32_t pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(pair[i] << 16);
      x[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
    }
  }
};

template <class Real>
__device__ inline void load(const Real* from, float (&x)[octet]) {
  Packed<Real>(from).unpack(x);
}
__device__ inline void store(float* to, const float (&x)[octet]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(x[0], x[1], x[2], x[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(x[4], x[5], x[6], x[7]);
}
__device__ inline void store(bf16* to, const float (&x)[octet]) {
  uint32_t pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = __bfloat16_as_ushort(__float2bfloat16_rn(x[2 * i]));
    const uint32_t high = __bfloat16_as_ushort(__float2bfloat16_rn(x[2 * i + 1]));
    pair[i] = low | high << 16;
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

// Threads of a block that has a row, rounded up to whole warps.
inline unsigned threads_of_row(int64_t channels) {
  require(channels > 0 && channels % 64 == 0 && channels <= max_channels,
          "channels on a GPU: expected a multiple of 64 up to 8192");
  return unsigned((channels / octet + 31) / 32 * 32);
}

// For pointers that are read sixteen bytes at a time.
template <class... Pointer>
void require_aligned(const Pointer*... at) {
  require(((reinterpret_cast<uintptr_t>(at) % 16 == 0) && ...),
          "tensors on a GPU: expected addresses that are multiples of 16");
}

// Rows of each block, for about `blocks` blocks, whatever the GPU.
inline int64_t rows_per_block(int64_t rows, int64_t blocks) { return (rows + blocks - 1) / blocks; }

}  // namespace deltasane::kernel::cuda
