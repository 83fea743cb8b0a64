#include "emulation/kernels/static_shared.h"
#include "kernel/delta_rule/token_cuda/convolved_token.cu"
