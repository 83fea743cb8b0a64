#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/gated_cuda/input_backward.cu"
