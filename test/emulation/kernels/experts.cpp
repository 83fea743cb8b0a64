#include "emulation/kernels/static_shared.h"
#include "kernel/experts/cuda.cu"
