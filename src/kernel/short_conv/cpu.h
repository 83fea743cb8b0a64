// One token of the short convolution and of its gradient, compiled per instruction set (cpu.cpp). Plain
// declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

inline constexpr int64_t max_taps = 16;

// inputs: of each tap, oldest first; weight: (taps, count).
template <Isa isa>
void short_conv_row(const float* const* inputs, int64_t taps, const float* weight, float* y,
                    int64_t count);

// dy becomes the gradient of the sum inside of silu. An input that is null is zero.
template <Isa isa>
void short_conv_sum_backward(const float* const* inputs, int64_t taps, const float* weight,
                             float* dy, int64_t count);

struct ShortConvRowGradient {
  int64_t taps, count;
  const float* weight;         // (taps, count)
  const float* const* inputs;  // of each tap of this token
  const float* dsum;           // of this token
  const float* const* dsums;   // of the tokens that meet this one's input, by tap; null: none
  float* dx;
  float* dweight;  // (taps, count), added to
};
template <Isa isa>
void short_conv_row_backward(const ShortConvRowGradient& row);

}  // namespace deltasane::kernel::cpu
