// Stands for the header of this name, which says what these do.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline void ldmatrix(uint32_t (&x)[4], uint32_t at) { emulation::ldmatrix(x, at, false); }
inline void ldmatrix_transposed(uint32_t (&x)[4], uint32_t at) { emulation::ldmatrix(x, at, true); }
inline void stmatrix(uint32_t at, const uint32_t (&x)[4]) { emulation::stmatrix(at, x, false); }
inline void stmatrix_transposed(uint32_t at, const uint32_t (&x)[4]) {
  emulation::stmatrix(at, x, true);
}
inline void store_shared(uint32_t at, uint32_t x) {
  *static_cast<uint32_t*>(emulation::shared_pointer(at)) = x;
}
inline uint32_t movmatrix_transposed(uint32_t x) { return emulation::movmatrix(x); }
inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::mma(c, a, b0, b1);
}

}  // namespace deltasane::kernel::cuda
