#include "emulation/declared_memory.h"
#include "kernel/sums/cuda.cu"
