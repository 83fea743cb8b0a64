#include "emulation/kernels/static_shared.h"
#include "kernel/matmul/grouped/product.cu"
