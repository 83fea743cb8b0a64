// Where the rows of a cache are, and which of them a token sees. For .cu files.
#pragma once

#include "kernel/attention/cuda.h"
#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::kernel::cuda {

// Out of line: a division of 64 bits is a hundred instructions, and is asked for in many places.
__device__ __attribute__((noinline)) inline int64_t slot_in_ring(int64_t position, int64_t fixed,
                                                                 int64_t ring) {
  return fixed + (position - fixed) % ring;
}

template <class Real>
struct CacheRows {
  Real* data;  // of the layer
  int64_t row, fixed, ring;
  __device__ CacheRows(const KeyValueCaches<Real>& cache, int sequence, int64_t row_)
      : data(cache.caches[sequence] + cache.number * cache.capacity[sequence] * row_),
        row(row_),
        fixed(cache.fixed),
        ring(cache.ring) {}
  __device__ Real* at(int64_t position) const {
    const int64_t slot =
        ring == 0 || position < fixed ? position : slot_in_ring(position, fixed, ring);
    return data + slot * row;
  }
};

// The positions that the token at `position` sees: the first `kept`, and those from `begin` on.
struct Seen {
  int64_t kept, begin, count;
  __device__ Seen(int64_t position, int64_t window, int64_t first)
      : begin(window > 0 && position + 1 > window ? position + 1 - window : 0) {
    kept = first < begin ? first : begin;
    count = kept + position + 1 - begin;
  }
  __device__ int64_t position(int64_t i) const { return i < kept ? i : begin + i - kept; }
};

}  // namespace deltasane::kernel::cuda
