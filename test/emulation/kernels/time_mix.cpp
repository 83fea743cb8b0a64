#include "emulation/kernels/static_shared.h"
#include "kernel/time_mix/cuda.cu"
