// A pseudo-random permutation of 0 .. size-1, computed per element without storage.
#pragma once

#include <cstdint>
#include <string_view>

namespace deltasane::corpus {

// The image of `index` < size under the permutation of this seed and epoch.
uint64_t shuffled(uint64_t index, uint64_t size, uint64_t seed, uint64_t epoch);

// Item `index` of an endless pass over `size` items, reshuffled every epoch.
inline uint64_t shuffled_epochs(uint64_t index, uint64_t size, uint64_t seed) {
  return shuffled(index % size, size, seed, index / size);
}

// Values of the option `order`.
inline constexpr std::string_view order_names[] = {"file", "shuffled"};

}  // namespace deltasane::corpus
