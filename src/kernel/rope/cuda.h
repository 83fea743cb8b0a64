// Rotary positions (rope.h) on a GPU, in place, of rows at the positions of their sequences. Angles
// are computed in double.
//
// x             (rows, heads, size), `step` numbers from row to row
// frequencies   (rotary / 2), on the GPU: theta^(-2 i / rotary)
//
// reference.h is the definition.
#pragma once

#include "base/half.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct Rope {
  RaggedRows rows;
  int64_t heads, size, step, rotary;
  const double* frequencies;
  Real* x;
};
template <class Real>
void rope(const Rope<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
