// Activations, element by element and in place, on the CPU.
//
//     x = tanh x,   1 / (1 + exp(-x)),   or max(x, 0)^2
//
// x   (rows, C)
//
// reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

enum class Activation { tanh, sigmoid, squared_relu };
void activate(Activation activation, View<float> x, const Cpu& cpu);
void activate_row(Activation activation, float* x, int64_t count, Isa isa);
// What activates `count` numbers in place, by a usable instruction set.
using RowActivation = void (*)(float* x, int64_t count);
RowActivation row_activation(Activation activation, Isa isa);

// y: the result of activate; dy becomes the gradient of its argument.
void activate_backward(Activation activation, View<const float> y, View<float> dy, const Cpu& cpu);

}  // namespace deltasane::kernel
