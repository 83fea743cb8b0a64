#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/cuda/few_heads_forward.cu"
