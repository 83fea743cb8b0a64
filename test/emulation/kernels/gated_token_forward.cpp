#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/gated_cuda/token_forward.cu"
