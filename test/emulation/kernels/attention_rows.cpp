#include "emulation/kernels/dynamic_shared.h"
#include "kernel/attention/cuda_rows.cu"
