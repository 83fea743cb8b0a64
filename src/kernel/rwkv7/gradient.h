// The gradients of the row operations in rwkv7.h.
//
// "Added to" means that the result is added to what is there: parameters are shared by all rows
// and calls, and the residual stream by all operations. Sums over rows are taken in an order that
// depends on the shape alone. gradient_reference.cpp is the definition.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "kernel/rwkv7/rwkv7.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct LayerNormGradient {
  View<const float> x;  // (rows, C), as layer_norm was given it
  const float* weight;  // (C)
  float eps;
  View<const float> dy;    // (rows, C)
  View<float> dx;          // (rows, C), added to
  float *dweight, *dbias;  // (C), added to
};
void layer_norm_backward(const LayerNormGradient& op, const Cpu& cpu);

// One sequence that starts from nothing: before the first row there was zero.
struct TokenShiftGradient {
  View<const float> u;                      // (time, C)
  std::span<const float* const> mu;         // (C) each
  std::span<const View<const float>> dout;  // (time, C) each
  View<float> du;                           // (time, C), overwritten
  std::span<float* const> dmu;              // (C) each, added to
};
void token_shift_backward(const TokenShiftGradient& op, const Cpu& cpu);

struct TimeMixInputsGradient {
  int64_t head_size;
  View<const float> w, a, k, v;           // (rows, C), as time_mix_inputs was given them
  View<const float> gate, v_first;        // absent in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;  // (C)
  View<float> dw, da, dk, dv;  // (rows, C): those of the results become those of what was given
  View<const float> db;        // (rows, C)
  View<float> dgate;           // overwritten; absent in the first layer
  View<float> dv_first;        // added to; absent in the first layer
  float *dw0, *da0, *dv0, *dk_k, *dk_a;  // (C), added to; dv0 is not used in the first layer
};
void time_mix_inputs_backward(const TimeMixInputsGradient& op, const Cpu& cpu);

struct TimeMixOutputGradient {
  int64_t head_size;
  View<const float> y, r, k, v, g;   // (rows, C); y: as time_mix_output was given it
  const float *weight, *bias, *r_k;  // (C)
  float eps;
  View<float> dy;                 // (rows, C): that of the result becomes that of y
  View<float> dr, dk, dv, dg;     // (rows, C), overwritten
  float *dweight, *dbias, *dr_k;  // (C), added to
};
void time_mix_output_backward(const TimeMixOutputGradient& op, const Cpu& cpu);

// y: what activate left; dy becomes the gradient of what it was given.
void activate_backward(Activation activation, View<const float> y, View<float> dy, const Cpu& cpu);

void add_rows(View<const float> from, View<float> to, const Cpu& cpu);  // to += from

}  // namespace deltasane::kernel
