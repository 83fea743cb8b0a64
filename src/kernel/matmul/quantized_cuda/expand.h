// A quantized matrix as bf16 numbers, on a GPU, for products of many rows.
#pragma once

#include "base/half.h"
#include "kernel/matmul/quantized_cuda/matrix.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// to (rows, columns) = the numbers, rounded to bf16. columns: of the blocks, whole 32.
void expand(const GpuMatrix<bf16>& matrix, int64_t rows, int64_t columns, bf16* to, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
