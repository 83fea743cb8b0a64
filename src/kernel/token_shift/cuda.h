// Layer norm and token shift (token_shift.h) fused, on a GPU: u is made from x in registers and not
// stored. It is here, not with the norm, because what it writes are the shift's mixes.
//
//     u = layer_norm(x)        out_i = u + (p - u) mu_i        p: u of the row before
//
// u of a row that is padding is 0, and so is its gradient.
//
// Real is float or bf16: the type of what matrix products read and write. The residual stream x,
// its gradient and all parameters and their gradients are float; arithmetic is float. Tensors are
// packed and on the GPU. "Added to": the result is added to what is there. Sums over rows are taken
// in an order that depends on the shape alone.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/rows/row_block.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

inline constexpr int most_mixes = 6;

template <class Real>
struct NormShift {
  RowBlock rows;
  const float* x;
  const float *weight, *bias;
  float eps;
  const uint8_t* present = nullptr;  // (rows), 0: padding; null: all 1
  const float* before = nullptr;     // (sequences, C), u before the first row; null: zero
  float* last = nullptr;  // (sequences, C), takes u of the last row; may be `before`; no padding
  int mixes = 0;                  // 6 for the time mix (r w k v a g), 1 for the channel mix
  const float* mu[most_mixes] = {};
  Real* out[most_mixes] = {};
  // SANE: the mix with mu_tau of the rows that end a chunk, (sequences, chunks, C). null: none
  const float* mu_tau = nullptr;
  Real* out_tau = nullptr;
  Real* away_tau = nullptr;                      // takes p - u of those rows; null: not wanted
  int64_t position = 0, chunk = 16, chunks = 0;  // position of every sequence's first token
};
template <class Real>
void norm_shift(const NormShift<Real>& op, const Gpu& gpu);

// The gradient of norm_shift where `before` is zero; u and the mixes are recomputed from x. That of
// mu_tau is tau_weights_backward's (sane).
template <class Real>
struct NormShiftGradient {
  NormShift<Real> op;  // `out` is not used
  const Real* dout[most_mixes] = {};
  const Real* dout_tau = nullptr;  // (sequences, chunks, C), beside six mixes; null: none
  float* dx;                       // (rows, C), added to
  float *dweight, *dbias;          // (C), added to
  float* dmu[most_mixes] = {};     // (C), added to
  float* scratch;                  // (norm_shift_scratch(rows)) floats
  Real* dx_real = nullptr;  // (rows, C), takes dx as matrix products read it; null: not wanted
};
int64_t norm_shift_scratch(const RowBlock& rows);
template <class Real>
void norm_shift_backward(const NormShiftGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
