#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/gated_cuda/state_forward.cu"
