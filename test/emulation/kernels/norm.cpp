#include "emulation/kernels/static_shared.h"
#include "kernel/norm/cuda.cu"
