// A copy of floats as bf16, on a GPU: parameters and gradients as operands of matrix products.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// to[i] = bf16(from[i]), to nearest, ties to even. count: a multiple of 8; both contiguous, aligned
// to 32 and 16 bytes.
void rounded(const float* from, bf16* to, int64_t count, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
