// Weights of a matrix in loads of 16 bytes. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"

namespace deltasane::kernel::cuda {

template <class Weight>
inline constexpr int weights_per_load = 16 / int(sizeof(Weight));

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

// Swizzle of a product's input in shared memory: a warp's 16-byte loads hit every bank once.
template <class Weight>
__device__ inline int swizzled(int column) {
  if constexpr (weights_per_load<Weight> == 4) return column;
  return (column & ~255) | (column & 4) << 5 | (column & 0xf8) >> 1 | (column & 3);
}

}  // namespace deltasane::kernel::cuda
