#include "emulation/kernels/static_shared.h"
#include "kernel/rows/heads_cuda.cu"
