#include "emulation/kernels/static_shared.h"
#include "kernel/embedding/cuda.cu"
