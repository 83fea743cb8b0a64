// The operators on a GPU other than the recurrence, in bf16: bytes, operations and time of each. To
// be compared with the limits of gpu_limits.h.
#pragma once

#include <string>
#include <vector>

#include "base/timing.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

struct GpuOperatorMeasurement {
  std::string operation;
  double bytes;  // the least the maths needs: inputs read once, outputs written once
  double flops;  // of matrix products; 0 where there are none, and only bytes count
  Timing timing;
};

// Products, row operations, loss, optimisers and sampler, at the sizes of a step of 0.4B: 8
// sequences of 4096 tokens, 1024 channels; a vocabulary of 65536.
std::vector<GpuOperatorMeasurement> bench_gpu_operators(const Gpu& gpu);

}  // namespace deltasane::kernel
