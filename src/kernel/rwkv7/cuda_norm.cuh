// Layer norms of rows that a block has in registers. For .cu files.
#pragma once

#include "kernel/cuda_lanes.cuh"

namespace deltasane::kernel::cuda {

// The two numbers that normalize a row: (x - mean) scale.
struct Moments {
  float mean, scale;
};

// Of `rows` rows at once. `mine`: whether this thread has channels; the others' x are not used.
// Products are fused by hand so that every kernel gets the same bits.
template <int rows, int most>
__device__ inline void moments_of(const float (&x)[rows][octet], bool mine, int channels, float eps,
                                  BlockSums<most>& sums, Moments (&of)[rows]) {
  float sum[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    sum[r] = 0;
    if (mine)
#pragma unroll
      for (int i = 0; i < octet; ++i) sum[r] += x[r][i];
  }
  sums(sum);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    of[r].mean = sum[r] / float(channels);
    sum[r] = 0;
    if (mine)
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        const float away = x[r][i] - of[r].mean;
        sum[r] = __fmaf_rn(away, away, sum[r]);
      }
  }
  sums(sum);
#pragma unroll
  for (int r = 0; r < rows; ++r) of[r].scale = 1.0f / sqrtf(sum[r] / float(channels) + eps);
}

__device__ inline float normal(float x, const Moments& of) {
  return __fmul_rn(__fsub_rn(x, of.mean), of.scale);
}
__device__ inline float normalized(float x, const Moments& of, float weight, float bias) {
  return __fmaf_rn(normal(x, of), weight, bias);
}

}  // namespace deltasane::kernel::cuda
