#include "emulation/kernels/static_shared.h"
#include "kernel/rows/cuda.cu"
