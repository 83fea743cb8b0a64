// Token shift: each output mixes a row with the row before it, by a weight per channel.
//
//     out_i = u + (p - u) mu_i        p: the row before; for the first row, `before`
//
// u, out_i   (time, C), one sequence, on the CPU
// before     (C)
// mu_i       (C)
//
// reference.h is the definition. On a GPU (cuda.h) the layer norm that makes u is fused in front.
#pragma once

#include <span>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct TokenShift {
  View<const float> u;
  const float* before;
  std::span<const float* const> mu;
  std::span<const View<float>> out;
};
void token_shift(const TokenShift& op, const Cpu& cpu);
// One row of one output.
void token_shift_row(const float* u, const float* before, const float* mu, float* out, int64_t count,
                     Isa isa);

// A row's gradient goes to itself and to the row before it:
//
//     du_t = sum_i dout_i,t (1 - mu_i) + dout_i,t+1 mu_i
//     dmu_i += sum_t dout_i,t (p_t - u_t)
//
// For one sequence whose `before` was zero. Sums over rows are taken in an order that depends on
// the shape alone.
struct TokenShiftGradient {
  View<const float> u;                      // (time, C)
  std::span<const float* const> mu;         // (C) each
  std::span<const View<const float>> dout;  // (time, C) each
  View<float> du;                           // (time, C), overwritten
  std::span<float* const> dmu;              // (C) each, added to
};
void token_shift_backward(const TokenShiftGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
