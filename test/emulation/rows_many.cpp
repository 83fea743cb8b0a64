#include "emulation/declared_memory.h"
#include "kernel/rwkv7/cuda_many.cu"
