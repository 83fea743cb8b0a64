// A copy of floats in 16 bits, on a GPU: parameters and gradients as matrix products read them.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// to[i] = bf16(from[i]), to nearest, ties to even. count: a multiple of 8; both packed and starting
// at multiples of 32 and 16 bytes.
void rounded(const float* from, bf16* to, int64_t count, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
