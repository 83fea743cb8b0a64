// What a time mix does beside its matrix products and the recurrence (delta_rule), row
// by row, on the CPU.
//
// time_mix_inputs, from the products to what the recurrence reads, per channel:
//
//     w = exp(-exp(-1/2) sigmoid(w0 + w))                      the decay
//     rate = sigmoid(a0 + a)
//     kappa = k k_k / max(|k k_k|, 1e-12)                      per head; or as key_norm.h says
//     a = -kappa        b = kappa rate
//     k = k (1 + (rate - 1) k_a)
//     v = v + (v_first - v) sigmoid(v0 + gate)                 where v_first is given
//
// time_mix_output, from the recurrence's y to what the output matrix reads, per head:
//
//     y = (group_norm(y) weight + bias + (sum_j r_j k_j r_k_j) v) g
//
// All (rows, C) float, C = heads x head_size. reference.cpp is the definition; README.md derives
// the gradients.
#pragma once

#include <cstdint>

#include "kernel/cpu_device.h"
#include "kernel/time_mix/key_norm.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct TimeMixInputs {
  int64_t head_size;
  View<float> w, a, b, k, v;  // (rows, C); w, a, k, v: read and overwritten
  View<const float> gate;     // (rows, C); absent in the first layer
  View<const float> v_first;  // (rows, C); absent in the first layer
  const float *w0, *a0, *v0;  // (C)
  const float *k_k, *k_a;     // (C)
  KeyNorm key_norm{};
};
void time_mix_inputs(const TimeMixInputs& op, const Cpu& cpu);

struct TimeMixOutput {
  int64_t head_size;
  View<float> y;                 // (rows, C), overwritten
  View<const float> r, k, v, g;  // (rows, C)
  const float *weight, *bias;    // (C), of the group norm
  const float* r_k;              // (C)
  float eps;
};
void time_mix_output(const TimeMixOutput& op, const Cpu& cpu);

// Gradients. "Added to": the result is added to what is there. Sums over rows are taken in an order
// that depends on the shape alone.
struct TimeMixInputsGradient {
  int64_t head_size;
  View<const float> w, a, k, v;           // (rows, C), as time_mix_inputs was given them
  View<const float> gate, v_first;        // absent in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;  // (C)
  View<float> dw, da, dk, dv;            // (rows, C): of the results; become those of the arguments
  View<const float> db;                  // (rows, C)
  View<float> dgate;                     // overwritten; absent in the first layer
  View<float> dv_first;                  // added to; absent in the first layer
  float *dw0, *da0, *dv0, *dk_k, *dk_a;  // (C), added to; dv0 is not used in the first layer
  KeyNorm key_norm{};
};
void time_mix_inputs_backward(const TimeMixInputsGradient& op, const Cpu& cpu);

struct TimeMixOutputGradient {
  int64_t head_size;
  View<const float> y, r, k, v, g;   // (rows, C); y: as time_mix_output was given it
  const float *weight, *bias, *r_k;  // (C)
  float eps;
  View<float> dy;                 // (rows, C): of the result; becomes that of y
  View<float> dr, dk, dv, dg;     // (rows, C), overwritten
  float *dweight, *dbias, *dr_k;  // (C), added to
};
void time_mix_output_backward(const TimeMixOutputGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
