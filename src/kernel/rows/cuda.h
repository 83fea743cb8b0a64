// to += from, on a GPU. Real is float or bf16; the sum is float.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
void add_rows(const float* from, Real* to, int64_t count, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
