// One row of time_mix_inputs and time_mix_output and of their gradients, compiled per instruction
// set (cpu.cpp, cpu_backward.cpp). Plain declarations only. Gradients of parameters are added to;
// the others as time_mix.h says.
#pragma once

#include <cstdint>

#include "kernel/isa.h"
#include "kernel/time_mix/key_norm.h"

namespace deltasane::kernel::cpu {

struct InputsRow {
  int64_t heads, head_size;
  float *w, *a, *b, *k, *v;
  const float *gate, *v_first;  // null: no value residual
  const float *w0, *a0, *v0, *k_k, *k_a;
  KeyNorm key_norm;
};
template <Isa isa>
void inputs_row(const InputsRow& row);

struct OutputRow {
  int64_t heads, head_size;
  float* y;
  const float *r, *k, *v, *g, *weight, *bias, *r_k;
  float eps;
};
template <Isa isa>
void output_row(const OutputRow& row);

struct InputsRowGradient {
  int64_t heads, head_size;
  const float *w, *a, *k, *v, *gate, *v_first;  // gate: null in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;
  float *dw, *da, *dk, *dv;
  const float* db;
  float *dgate, *dv_first;
  float *dw0, *da0, *dv0, *dk_k, *dk_a;
  KeyNorm key_norm;
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

}  // namespace deltasane::kernel::cpu
