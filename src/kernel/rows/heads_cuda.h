// Rows of heads on a GPU, copied from one order to another: (row, head, channel) with any number of
// elements from row to row and from head to head. Real is float or bf16.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct CopyHeads {
  int64_t rows = 0, heads = 0, size = 0;
  const Real* from = nullptr;
  int64_t from_row = 0, from_head = 0;
  Real* to = nullptr;
  int64_t to_row = 0, to_head = 0;
};
template <class Real>
void copy_heads(const CopyHeads<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
