#include "emulation/kernels/static_shared.h"
#include "kernel/cross_entropy/cuda.cu"
