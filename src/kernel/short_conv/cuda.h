// The short convolution with silu (short_conv.h) of the sequences of a block on a GPU. Real is float
// or bf16; weights, sums and the kept inputs are float.
//
// x        (rows, C), `step` numbers from row to row
// weight   (taps, C)
// state    of each sequence, from state_at on: (taps - 1, C), the inputs before, oldest first
// parts    the channels of y in up to three packed matrices, side by side
//
// reference.h is the definition.
#pragma once

#include "base/half.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct ShortConv {
  RaggedRows rows;
  int64_t channels = 0, step = 0, taps = 1;
  const Real* x = nullptr;
  const float* weight = nullptr;
  int64_t state_at = 0;
  struct Part {
    Real* y = nullptr;
    int64_t channels = 0;
  } parts[3];
};
// The states' inputs are replaced by the last ones.
template <class Real>
void short_conv(const ShortConv<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
