#include "emulation/kernels/static_shared.h"
#include "kernel/attention/whole_cuda_softmax.cu"
