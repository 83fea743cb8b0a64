#include "emulation/kernels/static_shared.h"
#include "kernel/sane/cuda_mix_backward.cu"
