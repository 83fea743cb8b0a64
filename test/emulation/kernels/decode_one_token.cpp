#include "emulation/kernels/dynamic_shared_of.h"

DYNAMIC_SHARED_OF(rwkv7::one)
#include "model/rwkv7/decode/one/token.cu"
