#include "emulation/kernels/dynamic_shared.h"
#include "kernel/matmul/few_rows/product.cu"
