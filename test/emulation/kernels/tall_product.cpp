#include "emulation/kernels/dynamic_shared.h"
#include "kernel/matmul/grouped/tall.cu"
