#include "emulation/kernels/static_shared.h"
#include "kernel/activation/cuda.cu"
