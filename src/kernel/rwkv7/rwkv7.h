// What an RWKV-7 layer does besides matrix products and the recurrence, row by row.
//
// A row is one token of one sequence: C channels, H heads of N. All numbers are float32.
//
//     layer_norm        y = (x - mean) / sqrt(variance + eps) weight + bias
//     token_shift       out_i = u + (p - u) mu_i          p: the row before, or `before` for the
//     first time_mix_inputs   w = exp(-exp(-1/2) sigmoid(w0 + w))
//                       rate = sigmoid(a0 + a)
//                       a = -kappa, b = kappa rate         kappa = k k_k / max(|k k_k|, 1e-12), per
//                       head k = k (1 + (rate - 1) k_a) v = v + (v_first - v) sigmoid(v0 + gate)
//                       where v_first is given
//     time_mix_output   y = (group_norm(y) weight + bias + (sum_j r_j k_j r_k_j) v) g     per head
//     activate          x = tanh x, sigmoid x, or max(x, 0)^2
//
// reference.cpp is the definition.
#pragma once

#include <cstdint>

#include <span>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

void layer_norm(View<const float> x, const float* weight, const float* bias, float eps,
                View<float> y, const Cpu& cpu);

struct TokenShift {
  View<const float> u;               // (time, C), one sequence
  const float* before;               // (C)
  std::span<const float* const> mu;  // (C) each
  std::span<const View<float>> out;  // (time, C) each
};
void token_shift(const TokenShift& op, const Cpu& cpu);

struct TimeMixInputs {
  int64_t head_size;
  View<float> w, a, b, k, v;  // (rows, C); w, a, k, v: read and overwritten
  View<const float> gate;     // (rows, C); absent in the first layer
  View<const float> v_first;  // (rows, C); absent in the first layer
  const float *w0, *a0, *v0;  // (C)
  const float *k_k, *k_a;     // (C)
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

enum class Activation { tanh, sigmoid, squared_relu };
void activate(Activation activation, View<float> x, const Cpu& cpu);

}  // namespace deltasane::kernel
