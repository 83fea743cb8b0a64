#include "emulation/kernels/static_shared.h"
#include "kernel/norm/rms_cuda.cu"
