#include "emulation/kernels/static_shared.h"
#include "kernel/sums/columns_cuda.cu"
