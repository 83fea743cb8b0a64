#include "emulation/kernels/static_shared.h"
#include "kernel/decay/cuda.cu"
