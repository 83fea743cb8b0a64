// The operators on a GPU beside the recurrence, in bf16: what each must move and compute, and how
// long it took. To be held against the copy and the product of gpu_limits.h.
#pragma once

#include <string>
#include <vector>

#include "base/timing.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

struct GpuOperatorMeasurement {
  std::string operation;
  double bytes;  // the least the maths needs: inputs read once, outputs written once
  double flops;  // of products; 0 where there are none, and bytes are all that counts
  Timing timing;
};

// Products, row operations, loss, optimisers and sampler, at the sizes of a step of 0.4B: 8
// sequences of 4096 tokens, 1024 channels; a vocabulary of 65536.
std::vector<GpuOperatorMeasurement> bench_gpu_operators(const Gpu& gpu);

}  // namespace deltasane::kernel
