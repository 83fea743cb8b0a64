// What this GPU reaches on a plain copy within its memory and on one large product: the two limits
// every benchmark on it is held against, measured in the same run.
#pragma once

#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

struct GpuLimits {
  double copy_bytes_per_second = 0;     // what is read and what is written together
  double product_flops_per_second = 0;  // bf16 with float sums, 8192 x 8192 x 8192
};

GpuLimits measure_limits(const Gpu& gpu);

}  // namespace deltasane::kernel
