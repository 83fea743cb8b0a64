#include "emulation/declared_memory.h"
#include "kernel/cuda_partials.cu"
