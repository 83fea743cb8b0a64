// What the kernels of single tokens share: weights as they lie in memory, activations, requests.
// For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"
#include "kernel/rwkv7/cuda_gates.cuh"

namespace deltasane::kernel::cuda {

inline constexpr float few_norm_eps = 1e-5f;

template <class Weight>
inline constexpr int per_load = 16 / int(sizeof(Weight));

__device__ inline void unpack(const uint4& raw, float (&to)[8], bf16) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
__device__ inline void unpack(const uint4& raw, float (&to)[4], float) {
  to[0] = __uint_as_float(raw.x), to[1] = __uint_as_float(raw.y);
  to[2] = __uint_as_float(raw.z), to[3] = __uint_as_float(raw.w);
}

// Where the input of a column lies, so that a warp's 16-byte reads of it meet every bank once.
template <class Weight>
__device__ inline int place_of(int column) {
  if constexpr (per_load<Weight> == 4) return column;
  return (column & ~255) | (column & 4) << 5 | (column & 0xf8) >> 1 | (column & 3);
}

// By all threads of a block: the bytes come into the GPU's cache.
__device__ inline void ask_for(const void* from, int64_t bytes) {
  for (int64_t i = threadIdx.x * 128; i < bytes; i += blockDim.x * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + i));
}

enum class Then { nothing, tanh, sigmoid, squared_relu };

__device__ inline float finished(float value, Then then) {
  if (then == Then::nothing) return value;
  if (then == Then::squared_relu) return value < 0 ? 0.0f : value * value;  // keeps NaN
  return then == Then::tanh ? tanhf(value) : sigmoid(value);
}

}  // namespace deltasane::kernel::cuda
