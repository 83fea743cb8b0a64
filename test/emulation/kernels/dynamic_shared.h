// For the .cu file that is included after this one, of kernel::cuda.
#pragma once

#include "emulation/kernels/dynamic_shared_of.h"

DYNAMIC_SHARED_OF(kernel::cuda)
