// Kernels that compute one element from another at the same index, eight elements per thread. For
// .cu files.
#pragma once

#include <algorithm>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {

inline constexpr int element_threads = 256;

// to = body(from, to) over `count` elements; the first 8 `octets` of them eight at a time.
template <class From, class To, class Body>
__global__ void __launch_bounds__(element_threads)
    each_element(const From* from, To* to, int64_t count, int64_t octets, Body body) {
  const int64_t first = int64_t(blockIdx.x) * element_threads + threadIdx.x;
  const int64_t step = int64_t(gridDim.x) * element_threads;
  grid_dependency_synchronize();
  for (int64_t i = first; i < octets; i += step) {
    float x[octet], y[octet];
    load(from + i * octet, x);
    load(to + i * octet, y);
#pragma unroll
    for (int j = 0; j < octet; ++j) y[j] = body(x[j], y[j]);
    store(to + i * octet, y);
  }
  for (int64_t i = octets * octet + first; i < count; i += step)
    store_one(to + i, body(to_float(from[i]), to_float(to[i])));
}

template <class From, class To, class Body>
void over_elements(const From* from, To* to, int64_t count, Body body, const Gpu& gpu) {
  if (count == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  const int64_t octets = address % 16 == 0 ? count / octet : 0;
  const int64_t work = std::max(octets, count - octets * octet);
  const int64_t blocks = std::min<int64_t>((work + element_threads - 1) / element_threads,
                                           32 * gpu.properties().multiprocessors);
  launch_dependent(each_element<From, To, Body>, {unsigned(blocks), element_threads}, gpu, from, to,
                   count, octets, body);
}

}  // namespace deltasane::kernel::cuda
