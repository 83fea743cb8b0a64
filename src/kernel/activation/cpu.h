// One row of each activation and of its gradient, compiled per instruction set (cpu.cpp,
// cpu_backward.cpp). Plain declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
void tanh_row(float* x, int64_t count);
template <Isa isa>
void sigmoid_row(float* x, int64_t count);
template <Isa isa>
void squared_relu_row(float* x, int64_t count);

template <Isa isa>
void tanh_row_backward(const float* y, float* dy, int64_t count);
template <Isa isa>
void sigmoid_row_backward(const float* y, float* dy, int64_t count);
template <Isa isa>
void squared_relu_row_backward(const float* y, float* dy, int64_t count);

}  // namespace deltasane::kernel::cpu
