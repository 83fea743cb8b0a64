#include "emulation/kernels/static_shared.h"
#include "model/rwkv7/decode/batch.cu"
