// A hash of a result on a GPU, to compare the bits of two results without keeping both.
#pragma once

#include <cstdint>

#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct Digest {
  uint64_t sum = 0;      // of a hash for each word and its index
  uint64_t nonzero = 0;  // words that are not 0
  bool operator==(const Digest&) const = default;
};
// Of `count` words of 4 bytes. Waits.
Digest digest_of(const void* words, int64_t count, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
