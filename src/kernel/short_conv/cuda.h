// The short convolution with silu (short_conv.h) of the sequences of a block on a GPU. Real is float
// or bf16; weights, sums and the kept inputs are float.
//
// x        (rows, C), `step` numbers from row to row
// weight   (taps, C)
// state    of each sequence, from state_at on: (taps - 1, C), the inputs before, oldest first. Without
//          states the inputs before are zero, and none are kept
// parts    the channels of y in up to three packed matrices, side by side
//
// reference.h is the definition.
#pragma once

#include "base/half.h"
#include "kernel/rows/ragged_rows.h"
#include "kernel/rows/row_block.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct ShortConvPart {
  Real* y = nullptr;
  int64_t channels = 0;
};

template <class Real>
struct ShortConv {
  RaggedRows rows;
  int64_t channels = 0, step = 0, taps = 1;
  const Real* x = nullptr;
  const float* weight = nullptr;
  int64_t state_at = 0;
  ShortConvPart<Real> parts[3];
};
// The states' inputs are replaced by the last ones.
template <class Real>
void short_conv(const ShortConv<Real>& op, const Gpu& gpu);

// (C, taps), as parameters are stored, to (taps, C).
void taps_first(const float* weight, int64_t channels, int64_t taps, float* to, const Gpu& gpu);

// Of whole sequences, with zeros before them. Sums over rows are taken in an order that depends on
// the shape alone.
template <class Real>
struct ShortConvGradient {
  RowBlock rows;  // of x and dx, packed
  int64_t taps = 1;
  const Real* x = nullptr;
  const float* weight = nullptr;  // (taps, C)
  ShortConvPart<Real> parts[3];   // dy
  Real* dx = nullptr;
  float* dweight = nullptr;  // (C, taps), added to; null: not wanted
  float* scratch = nullptr;  // short_conv_scratch() floats
};
int64_t short_conv_scratch(const RowBlock& rows, int64_t taps);
template <class Real>
void short_conv_backward(const ShortConvGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
