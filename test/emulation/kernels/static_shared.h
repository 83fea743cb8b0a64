// For the .cu file that is included after this one: arrays that kernels declare as __shared__ with
// a size are static, and so those of all threads of a block. They are not filled with NaN between
// blocks.
#pragma once

#include <cuda_runtime.h>

#undef __shared__
#define __shared__ static
