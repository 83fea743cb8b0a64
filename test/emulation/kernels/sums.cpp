#include "emulation/kernels/static_shared.h"
#include "kernel/sums/cuda.cu"
