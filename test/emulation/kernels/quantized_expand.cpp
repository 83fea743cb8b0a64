#include "emulation/kernels/static_shared.h"
#include "kernel/matmul/quantized_cuda/expand.cu"
