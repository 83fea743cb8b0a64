// Stands for the header of this name, which says what these do. What is within some ulps there is
// the nearest float here.
#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "emulation/block.h"
#include "emulation/warp.h"

namespace deltasane::kernel::cuda {

inline float without_tiny(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
inline float about_reciprocal(float x) { return without_tiny(1 / without_tiny(x)); }
inline float power_of_two(float x) { return without_tiny(float(std::exp2(double(x)))); }
inline float log2_of(float x) { return float(std::log2(double(without_tiny(x)))); }

inline void find_here(float&) {}
inline void find_here(int&) {}

template <int number, int threads>
void meet_at() {
  emulation::meet_threads(number, threads);
}
template <int threads>
void meet_at(int number) {
  emulation::meet_threads(unsigned(number), threads);
}

// Does nothing but read at both ends, so that a sanitizer sees what is not there.
inline void bring_near(const void* from, uint32_t bytes) {
  const volatile char* const at = static_cast<const char*>(from);
  (void)at[0], (void)at[bytes - 1];
}
inline void bring_line_near(const void* from) { bring_near(from, 128); }
inline uint32_t shared_address(const void* at) { return emulation::shared_address(at); }

using Signal = uint64_t;
inline void set_up(Signal& signal, int arrivals) {
  emulation::set_up_signal(&signal, unsigned(arrivals));
}
inline void arrive(Signal& signal) { emulation::arrive_at_signal(&signal); }
inline void wait_for(const Signal& signal, uint32_t round) {
  emulation::wait_for_signal(&signal, round);
}

inline void copy_at_once(void* shared, const void* from, uint32_t bytes, Signal& signal) {
  emulation::copy_and_arrive(shared, from, bytes, &signal);
}
inline void show_signals_to_copies() {}

inline void store_word(uint32_t at, uint32_t x) {
  *static_cast<uint32_t*>(emulation::at_shared(at)) = x;
}
inline void load_matrices_at_once(uint32_t (&x)[4], uint32_t at) {
  emulation::load_matrices(x, at, false);
}
inline void load_transposes_at_once(uint32_t (&x)[4], uint32_t at) {
  emulation::load_matrices(x, at, true);
}
inline void store_matrices_at_once(uint32_t at, const uint32_t (&x)[4]) {
  emulation::store_matrices(at, x, false);
}
inline void store_transposes_at_once(uint32_t at, const uint32_t (&x)[4]) {
  emulation::store_matrices(at, x, true);
}
inline uint32_t transpose(uint32_t x) { return emulation::transpose(x); }
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::multiply_add(c, a, b0, b1);
}

}  // namespace deltasane::kernel::cuda
