#include "emulation/kernels/dynamic_shared_of.h"

DYNAMIC_SHARED_OF(rwkv7)
#include "model/rwkv7/decode/small_batch.cu"
