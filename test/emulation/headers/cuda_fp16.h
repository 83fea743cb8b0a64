// Stands for CUDA's header of this name: what the kernels under test use of it, on the host.
#pragma once

#include "base/half.h"

struct __half {
  uint16_t bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half x) { return float(deltasane::f16::from_bits(x.bits)); }
