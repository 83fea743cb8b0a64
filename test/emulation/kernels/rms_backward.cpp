#include "emulation/kernels/static_shared.h"
#include "kernel/norm/heads_cuda/rms_backward.cu"
