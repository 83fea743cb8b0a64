#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/cuda/input_backward.cu"
