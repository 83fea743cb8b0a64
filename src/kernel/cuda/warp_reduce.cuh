// Reductions over the lanes of a warp. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

// Over the eight neighbouring lanes that have a head's 64 channels; each of them gets the sum.
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

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, far));
  return x;
}

// Of integers, where the order does not matter.
template <class Integer>
__device__ Integer warp_total(Integer x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  return x;
}

// Reduce-scatter of `count` values over the lanes whose numbers differ in the bits step, step / 2,
// ...: at each step a lane keeps half of its values and sends the others to its partner. The bits
// of a lane's number, from `step` down, are the number of the value that it gets.
template <int count, int step>
__device__ float reduce_scatter(float (&x)[count]) {
  if constexpr (count == 1) {
    return x[0];
  } else {
    const bool upper = threadIdx.x & step;
    float keep[count / 2];
#pragma unroll
    for (int i = 0; i < count / 2; ++i)
      keep[i] = (upper ? x[i + count / 2] : x[i]) +
                __shfl_xor_sync(~0u, upper ? x[i] : x[i + count / 2], step);
    return reduce_scatter<count / 2, step / 2>(keep);
  }
}

// Of some numbers: their mean, and the sum of squares about it.
struct WarpMoments {
  float mean, squares;
};
// Of a warp's numbers, `count` of each lane; every lane gets them. Two moments are combined without
// cancellation, with as many dependent shuffles as one sum takes.
__device__ inline WarpMoments warp_moments(WarpMoments own, float count) {
  float half = 0.5f * count;  // of the numbers of both sides
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

}  // namespace deltasane::kernel::cuda
