#include "emulation/kernels/static_shared.h"
#include "kernel/rope/cuda.cu"
