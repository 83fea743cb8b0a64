#include "emulation/kernels/static_shared.h"
#include "kernel/rounded/cuda.cu"
