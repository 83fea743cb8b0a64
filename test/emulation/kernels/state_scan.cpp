#include "emulation/kernels/static_shared.h"
#include "kernel/state_scan/cuda.cu"
