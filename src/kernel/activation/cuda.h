// The activations of activation.h on a GPU, in place. Real is float or bf16, arithmetic is float.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/activation/activation.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

using kernel::Activation;

template <class Real>
void activate(Activation activation, Real* x, int64_t count, const Gpu& gpu);
// y: the result of activate; dy becomes the gradient of its argument.
template <class Real>
void activate_backward(Activation activation, const Real* y, Real* dy, int64_t count,
                       const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
