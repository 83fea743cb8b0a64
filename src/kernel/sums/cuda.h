// Sums of numbers on a GPU, in an order that depends only on how many there are.
#pragma once

#include <cstdint>

#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// *sum += values[0] + ... + values[count - 1]; by one block, for as many numbers as a batch has
// rows.
void add_sum(const double* values, int64_t count, double* sum, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
