#include <cuda_runtime.h>

#include "kernel/sampler/cuda/host.cu"
