#include "emulation/kernels/static_shared.h"
#include "kernel/cuda/partial_sums.cu"
