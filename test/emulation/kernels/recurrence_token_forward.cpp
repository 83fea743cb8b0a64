#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/cuda/token_forward.cu"
