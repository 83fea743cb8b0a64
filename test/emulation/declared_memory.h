// For a file of kernels that is included after this one: arrays that they declare as __shared__
// with a size are those of all threads of a block. What the block before left is there, not NaN.
#pragma once

#include <cuda_runtime.h>

#undef __shared__
#define __shared__ static
