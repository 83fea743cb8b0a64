// One row of each gradient, compiled per instruction set (gradient_rows.cpp). Plain declarations
// only. Gradients of parameters are added to; the others as gradient.h says.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

struct NormRowGradient {
  int64_t count;
  const float *x, *weight;
  float eps;
  const float* dy;
  float *dx, *dweight, *dbias;
};
template <Isa isa>
void norm_row_backward(const NormRowGradient& row);

struct ShiftRowGradient {
  int64_t count;
  const float *u, *before, *mu, *dout;  // before: null where there was zero
  const float* dout_after;              // of the row after; null in the last
  float *du, *dmu;                      // both added to
};
template <Isa isa>
void shift_row_backward(const ShiftRowGradient& row);

struct InputsRowGradient {
  int64_t heads, head_size;
  const float *w, *a, *k, *v, *gate, *v_first;  // gate: null in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;
  float *dw, *da, *dk, *dv;
  const float* db;
  float *dgate, *dv_first;
  float *dw0, *da0, *dv0, *dk_k, *dk_a;
};
template <Isa isa>
void inputs_row_backward(const InputsRowGradient& row);

struct OutputRowGradient {
  int64_t heads, head_size;
  const float *y, *r, *k, *v, *g, *weight, *bias, *r_k;
  float eps;
  float *dy, *dr, *dk, *dv, *dg;
  float *dweight, *dbias, *dr_k;
};
template <Isa isa>
void output_row_backward(const OutputRowGradient& row);

template <Isa isa>
void tanh_row_backward(const float* y, float* dy, int64_t count);
template <Isa isa>
void sigmoid_row_backward(const float* y, float* dy, int64_t count);
template <Isa isa>
void squared_relu_row_backward(const float* y, float* dy, int64_t count);
template <Isa isa>
void add_row(const float* from, float* to, int64_t count);

}  // namespace deltasane::kernel::cpu
