// For tests of operators on rows on a GPU: shapes, and rows of numbers on the host.
#pragma once

#include <span>
#include <vector>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/rows/row_block.h"

namespace deltasane::kernel::cuda::rows_definition {

// One row, odd numbers of them, several sequences, more rows than blocks, a row of many threads,
// and more of such rows than blocks.
inline std::vector<RowBlock> shapes() {
  return {{1, 1, 64},    {1, 7, 128},   {3, 11, 192}, {1, 33, 768},
          {2, 17, 1024}, {2, 1100, 64}, {1, 3, 4096}, {1, 600, 1088}};
}

template <class T>
std::span<T> row_of(Numbers<T>& x, int64_t row, int64_t channels) {
  if (x.empty()) return {};
  return std::span(x).subspan(size_t(row * channels), size_t(channels));
}
template <class T>
std::span<const T> row_of(const Numbers<T>& x, int64_t row, int64_t channels) {
  if (x.empty()) return {};
  return std::span(x).subspan(size_t(row * channels), size_t(channels));
}

using Reals = testing::Types<float, bf16>;

}  // namespace deltasane::kernel::cuda::rows_definition
