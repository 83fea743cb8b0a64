// Stands for the header of this name, which says what these do. Numbers of 4 bytes are stored and
// loaded at once.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

inline void store_release(uint32_t* at, uint32_t value) { *at = value; }
inline uint32_t load_acquire(const uint32_t* at) { return *at; }

inline void store_tagged(float* at, float value, uint32_t round) {
  emulation::expect_aligned(at, 4);
  *reinterpret_cast<volatile uint32_t*>(at) =
      (__float_as_uint(value) & ~1u) | (~round & 1u);
}
struct TaggedPair {
  uint32_t first = 0, second = 0;
  bool has(uint32_t round) const { return (first ^ round) & (second ^ round) & 1u; }
  float2 values() const { return {__uint_as_float(first & ~1u), __uint_as_float(second & ~1u)}; }
};
inline TaggedPair load_tagged(const float* at) {
  emulation::expect_aligned(at, 8);
  const auto* const pair = reinterpret_cast<const volatile uint32_t*>(at);
  return {pair[0], pair[1]};
}
inline void wait_for_others() { emulation::wait_for_others(); }
inline float2 weight_at(const float* at) { return __ldg(reinterpret_cast<const float2*>(at)); }
inline float2 shift_at(const float* at) { return weight_at(at); }

}  // namespace deltasane::kernel::cuda
