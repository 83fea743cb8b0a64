// Kernels whose threads have eight neighbouring channels each, or one where sizes or addresses do
// not allow eight. For .cu files.
#pragma once

#include <initializer_list>

#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::kernel::cuda {

template <int width, class Real>
__device__ inline void load_channels(const Real* from, float (&x)[width]) {
  if constexpr (width == octet)
    load(from, x);
  else
    x[0] = to_float(*from);
}
template <int width, class Real>
__device__ inline void store_channels(Real* to, const float (&x)[width]) {
  if constexpr (width == octet)
    store(to, x);
  else
    store_one(to, x[0]);
}

// Calls body.operator()<width>().
template <class Body>
void with_width(bool eight, const Body& body) {
  if (eight)
    body.template operator()<octet>();
  else
    body.template operator()<1>();
}

// Whether all sizes and steps are multiples of eight and all addresses of sixteen bytes.
inline bool in_eights(std::initializer_list<int64_t> sizes,
                      std::initializer_list<const void*> addresses) {
  for (const int64_t size : sizes)
    if (size % octet != 0) return false;
  for (const void* const at : addresses)
    if (reinterpret_cast<uintptr_t>(at) % 16 != 0) return false;
  return true;
}

inline constexpr int channel_threads = 256;
inline unsigned blocks_for(int64_t threads) {
  return unsigned((threads + channel_threads - 1) / channel_threads);
}

}  // namespace deltasane::kernel::cuda
