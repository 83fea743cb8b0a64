#include "emulation/kernels/static_shared.h"
#include "kernel/short_conv/cuda_backward.cu"
