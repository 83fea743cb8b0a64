// time_mix_inputs and time_mix_output (time_mix.h) on a GPU, for heads of 64.
//
// Real is float or bf16: the type of what matrix products read and write. raw w, the decay, and all
// parameters and their gradients are float; arithmetic is float. Tensors are (rows, C), packed and
// on the GPU, unless said otherwise. "Added to": the result is added to what is there. Sums over
// rows are taken in an order that depends on the shape alone.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/rows/row_block.h"
#include "kernel/time_mix/key_norm.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// As kernel::time_mix_inputs: from the products raw_* to what the recurrence reads.
template <class Real>
struct TimeMixInputs {
  RowBlock rows;  // heads of 64
  const float* raw_w;
  const Real *raw_a, *raw_k, *raw_v;
  const Real *gate, *v_first;  // null in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;
  float* w;
  Real *a, *b, *k, *v;  // k and v may be raw_k and raw_v
  KeyNorm key_norm{};
};
template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op, const Gpu& gpu);

// Also of r, which this operator does not change: r, k and v have gradients from the recurrence and
// from time_mix_output's bonus, which are summed here.
template <class Real>
struct TimeMixInputsGradient {
  TimeMixInputs<Real> op;                            // w, a, b, k, v are not used
  const float* dw;                                   // the recurrence's, (rows, C)
  const Real *dr, *da, *db, *dk, *dv;                // the recurrence's, (rows, C)
  const float* dbonus;                               // time_mix_output_backward's, (rows, H)
  const Real* dv_bonus;                              // time_mix_output_backward's, (rows, C)
  const Real* r;                                     // (rows, C)
  const float* r_k;                                  // (C)
  Real *draw_r, *draw_w, *draw_a, *draw_k, *draw_v;  // but for w, may be dr, da and so on
  Real* dgate;                                       // null in the first layer
  float* dv_first;  // added to (float: many layers add); null in the first layer
  float *dw0, *da0, *dv0, *dk_k, *dk_a;  // (C), added to
  float* scratch;                        // (time_mix_scratch(rows)) floats
};
int64_t time_mix_scratch(const RowBlock& rows);
template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& op, const Gpu& gpu);

// As kernel::time_mix_output: from `read`, the recurrence's output, to what the output matrix
// reads.
template <class Real>
struct TimeMixOutput {
  RowBlock rows;
  const Real *read, *r, *k, *v, *g;
  const float *weight, *bias, *r_k;
  float eps;
  Real* y;  // may be `read`
};
template <class Real>
void time_mix_output(const TimeMixOutput<Real>& op, const Gpu& gpu);

template <class Real>
struct TimeMixOutputGradient {
  TimeMixOutput<Real> op;  // y is not used
  const Real* dy;
  Real* dread;                    // may be dy
  float* dbonus;                  // (rows, H), of the bonus, the sum of r k r_k
  Real* dv_bonus;                 // (rows, C), of the v that it multiplies
  Real* dg;                       // (rows, C)
  float *dweight, *dbias, *dr_k;  // (C), added to
  float* scratch;                 // (time_mix_scratch(rows)) floats
};
template <class Real>
void time_mix_output_backward(const TimeMixOutputGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
