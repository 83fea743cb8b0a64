// The normalized key of a head, which eight neighbouring threads share. For .cu files.
#pragma once

#include "kernel/norm/cuda_moments.cuh"
#include "kernel/time_mix/key_norm.h"

namespace deltasane::kernel::cuda {

// kappa = k k_k inverse, inverse = 1 / max(sqrt(|k k_k|^2 + added), least)
struct Direction {
  float inverse;
  bool shorter;  // then it is a product with a constant
  __device__ Direction(const float (&k)[octet], const float (&k_k)[octet], const KeyNorm& norm) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) squares += k[i] * k_k[i] * k[i] * k_k[i];
    const float length = sqrtf(head_sum(squares) + norm.added);
    shorter = length < norm.least;
    inverse = 1.0f / (shorter ? norm.least : length);
  }
};

}  // namespace deltasane::kernel::cuda
