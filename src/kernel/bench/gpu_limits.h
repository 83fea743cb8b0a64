// The rates of a plain copy within this GPU's memory and of one large matrix product: the two
// limits that benchmarks on it are compared with, measured in the same run.
#pragma once

#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

struct GpuLimits {
  double copy_bytes_per_second = 0;     // bytes read plus bytes written
  double product_flops_per_second = 0;  // bf16 with float accumulation, 8192 x 8192 x 8192
};

GpuLimits measure_limits(const Gpu& gpu);

}  // namespace deltasane::kernel
