#include "corpus/shuffle.h"

#include <bit>

#include "base/error.h"
#include "base/random.h"

namespace deltasane::corpus {

// A Feistel network on the next power of four; results out of range are permuted again (cycle
// walking, Black and Rogaway 2002).
uint64_t shuffled(uint64_t index, uint64_t size, uint64_t seed, uint64_t epoch) {
  require(index < size, "a shuffled index is below the size");
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t turn = 0; turn < 4; ++turn) {
      const uint64_t mixed = philox(seed, epoch, turn << 32 | right)[0];
      const uint64_t swapped = left ^ (mixed & mask);
      left = right;
      right = swapped;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

}  // namespace deltasane::corpus
