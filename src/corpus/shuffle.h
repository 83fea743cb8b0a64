// A permutation of 0 .. size-1 that is computed, not stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace deltasane::corpus {

// The place of `index` < size in the order number `round` of this seed.
uint64_t shuffled(uint64_t index, uint64_t size, uint64_t seed, uint64_t round);

// Item `index` of a corpus of `size` items that is read over and over, in another order each time.
inline uint64_t shuffled_forever(uint64_t index, uint64_t size, uint64_t seed) {
  return shuffled(index % size, size, seed, index / size);
}

// How descriptions name the orders.
inline constexpr std::string_view order_names[] = {"file", "shuffled"};

}  // namespace deltasane::corpus
