// One row of each operation, compiled per instruction set (rows.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, float* y,
                    int64_t count);

template <Isa isa>
void shift_row(const float* u, const float* before, const float* mu, float* out, int64_t count);

struct InputsRow {
  int64_t heads, head_size;
  float *w, *a, *b, *k, *v;
  const float *gate, *v_first;  // null: no value residual
  const float *w0, *a0, *v0, *k_k, *k_a;
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

template <Isa isa>
void tanh_row(float* x, int64_t count);
template <Isa isa>
void sigmoid_row(float* x, int64_t count);
template <Isa isa>
void squared_relu_row(float* x, int64_t count);

}  // namespace deltasane::kernel::cpu
