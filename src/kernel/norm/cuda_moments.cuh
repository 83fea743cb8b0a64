// Mean and 1 / sqrt(variance + eps), of rows that a block has in registers and of heads that eight
// threads have. For .cu files.
#pragma once

#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::kernel::cuda {

// The two numbers that normalize a row: (x - mean) scale.
struct Moments {
  float mean, scale;
};

// Of `rows` rows at once. `mine`: whether this thread has channels; x of the others is not used.
// Multiply-adds are fused explicitly, so that every kernel gets the same bits.
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

inline constexpr int head_channels = 64;

// Of a head of 64, which eight neighbouring threads have, as a group norm needs them.
struct HeadMoments {
  float mean, scale;
  __device__ HeadMoments(const float (&x)[octet], float eps) {
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) sum += x[i];
    mean = head_sum(sum) / head_channels;
#pragma unroll
    for (int i = 0; i < octet; ++i) squares += (x[i] - mean) * (x[i] - mean);
    scale = 1.0f / sqrtf(head_sum(squares) / head_channels + eps);
  }
  __device__ float operator()(float x) const { return (x - mean) * scale; }
};

}  // namespace deltasane::kernel::cuda
