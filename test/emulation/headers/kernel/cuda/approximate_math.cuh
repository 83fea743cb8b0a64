// Stands for the header of this name, which says what these do. What is within some ulps there is
// the nearest float here.
#pragma once

#include <cuda_runtime.h>

#include <limits>

namespace deltasane::kernel::cuda {

inline float flush_subnormal(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
inline float reciprocal_approx(float x) { return flush_subnormal(1 / flush_subnormal(x)); }
inline float exp2_approx(float x) { return flush_subnormal(float(std::exp2(double(x)))); }
inline float log2_approx(float x) { return float(std::log2(double(flush_subnormal(x)))); }

inline void optimization_barrier(float&) {}
inline void optimization_barrier(int&) {}

}  // namespace deltasane::kernel::cuda
