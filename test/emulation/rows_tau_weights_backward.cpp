#include "emulation/declared_memory.h"
#include "kernel/rwkv7/cuda_tau_weights_backward.cu"
