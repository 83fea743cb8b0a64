#define KERNELS rwkv7
#include "emulation/kernels/dynamic_shared.h"
#include "model/rwkv7/decode/small_batch.cu"
