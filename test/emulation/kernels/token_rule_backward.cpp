#include "emulation/kernels/static_shared.h"
#include "kernel/delta_rule/token_cuda/token_rule_backward.cu"
