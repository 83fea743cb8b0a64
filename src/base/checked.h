// Arithmetic on sizes that come from files or callers: a wrap-around is an error, never a size.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace deltasane {

inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    fail(Fault::file, what, ": ", a, " + ", b, " does not fit in 64 bits");
  return sum;
}

inline uint64_t checked_multiply(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    fail(Fault::file, what, ": ", a, " x ", b, " does not fit in 64 bits");
  return product;
}

// The product of a shape.
template <class Sizes>
uint64_t checked_product(const Sizes& sizes, std::string_view what) {
  uint64_t product = 1;
  for (const auto size : sizes) product = checked_multiply(product, uint64_t(size), what);
  return product;
}

}  // namespace deltasane
