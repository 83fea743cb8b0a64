#include "emulation/raw_memory.h"
#include "kernel/delta_rule/cuda_reverse.cu"
