// How kernels here divide a row: a thread has eight channels, read and written sixteen bytes at a
// time; eight threads have a head of 64; a block has a whole row. Arithmetic is float. For .cu
// files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/error.h"
#include "base/half.h"

namespace deltasane::kernel::cuda {

inline constexpr int octet = 8;
inline constexpr int most_channels = 1024 * octet;  // of a row, which is a block's

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
__device__ inline void put(float* at, float x) { *at = x; }
__device__ inline void put(bf16* at, float x) {
  at->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// Eight channels as they lie in memory: half the registers where they are bf16.
template <class Real>
struct Packed;
template <>
struct Packed<float> {
  float4 low = {}, high = {};
  Packed() = default;
  __device__ explicit Packed(const float* from)
      : low(reinterpret_cast<const float4*>(from)[0]),
        high(reinterpret_cast<const float4*>(from)[1]) {}
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

// Over the eight neighbouring threads that have a head; every one of them gets the sum.
__device__ inline float head_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  x += __shfl_xor_sync(~0u, x, 2);
  return x + __shfl_xor_sync(~0u, x, 4);
}
__device__ inline float warp_sum(float x) {
  x = head_sum(x);
  x += __shfl_xor_sync(~0u, x, 8);
  return x + __shfl_xor_sync(~0u, x, 16);
}

// Likewise of numbers whose order does not matter.
template <class Integer>
__device__ Integer warp_total(Integer x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  return x;
}

// Of some numbers: their mean, and the sum of squares about it.
struct WarpMoments {
  float mean, squares;
};
// Of a warp's numbers, of which every thread has `count`; every thread gets them. No digits are
// lost, and there are no more shuffles in a row than for one sum.
__device__ inline WarpMoments warp_moments(WarpMoments own, float count) {
  float half = 0.5f * count;  // of what both sides have
#pragma unroll
  for (int away = 1; away < 32; away *= 2, half *= 2) {
    const float other = __shfl_xor_sync(~0u, own.mean, away);
    own.squares += __shfl_xor_sync(~0u, own.squares, away);
    const float off = other - own.mean;
    own.squares = fmaf(off * off, half, own.squares);
    own.mean = 0.5f * (own.mean + other);
  }
  return own;
}

// Sums over a block of whole warps, in the order of its threads; every thread gets them. Two places
// in turns, so that one barrier a call is enough: who writes a place again has passed the barrier
// of the call between, and so has every reader of it.
template <int most_values>
struct BlockSums {
  float (*place)[32 * most_values];  // two, shared
  int turn = 0;

  template <int values>
  __device__ void operator()(float (&x)[values]) {
    static_assert(values <= most_values);
    const int warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32;
    float* const mine = place[turn];
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < values; ++i) {
      x[i] = warp_sum(x[i]);
      if (threadIdx.x % 32 == 0) mine[warp * values + i] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < values; ++i) x[i] = 0;
    for (int w = 0; w < warps; ++w)
#pragma unroll
      for (int i = 0; i < values; ++i) x[i] += mine[w * values + i];
  }
};

// Threads of a block that has a row: whole warps.
inline unsigned threads_of_row(int64_t channels) {
  require(channels > 0 && channels % 64 == 0 && channels <= most_channels,
          "channels on a GPU: a multiple of 64 up to 8192");
  return unsigned((channels / octet + 31) / 32 * 32);
}

// Every pointer that is read sixteen bytes at a time.
template <class... Pointer>
void require_aligned(const Pointer*... at) {
  require(((reinterpret_cast<uintptr_t>(at) % 16 == 0) && ...),
          "tensors on a GPU start at multiples of sixteen bytes");
}

// How many rows a block walks: some `blocks` of them, whatever the GPU.
inline int64_t rows_to_walk(int64_t rows, int64_t blocks) { return (rows + blocks - 1) / blocks; }

}  // namespace deltasane::kernel::cuda
