#include "emulation/declared_memory.h"
#include "kernel/rounded/cuda.cu"
