#define KERNELS rwkv7::one
#include "emulation/kernels/dynamic_shared.h"
#include "model/rwkv7/decode/one/token.cu"
