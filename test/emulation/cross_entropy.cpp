#include "emulation/declared_memory.h"
#include "kernel/cross_entropy/cuda.cu"
