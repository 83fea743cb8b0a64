// Layer norm of rows (norm.h) on a GPU. Real is float or bf16: the type of what matrix products
// read; x, weight and bias are float, and so is the arithmetic.
//
// x, y           (rows, C), packed, 16-byte aligned; C a multiple of 64 up to 8192
// weight, bias   (C)
//
// Its gradient is part of norm_shift_backward (token_shift): with one mix and mu = 0 that is all it
// computes.
#pragma once

#include "base/half.h"
#include "kernel/rows/row_block.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
void layer_norm(const RowBlock& rows, const float* x, const float* weight, const float* bias,
                float eps, Real* y, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
