#include "emulation/kernels/static_shared.h"
#include "kernel/activation/gated_cuda.cu"
