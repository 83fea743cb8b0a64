#include "emulation/kernels/dynamic_shared.h"
#include "kernel/delta_rule/gated_cuda/per_channel_terms.cu"
