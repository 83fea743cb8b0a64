// What the time mix's kernels share: eight neighbouring threads have a head of 64. For .cu files.
#pragma once

#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda_gates.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int head_channels = 64;

// Mean and 1/deviation of a head.
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

// kappa = k k_k inverse, inverse = 1 / max(|k k_k|, 1e-12)
struct Direction {
  float inverse;
  bool shorter;  // then it is a product with a constant
  __device__ Direction(const float (&k)[octet], const float (&k_k)[octet]) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) squares += k[i] * k_k[i] * k[i] * k_k[i];
    const float length = sqrtf(head_sum(squares));
    shorter = length < 1e-12f;
    inverse = 1.0f / (shorter ? 1e-12f : length);
  }
};

}  // namespace deltasane::kernel::cuda
