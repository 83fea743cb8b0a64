#include "emulation/kernels/static_shared.h"
#include "kernel/token_shift/cuda.cu"
