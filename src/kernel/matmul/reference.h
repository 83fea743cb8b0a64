// The definition of the matrix product, in float or double.
#pragma once

#include <vector>

#include "kernel/matmul/matmul.h"
#include "tensor/tensor.h"

namespace deltasane::kernel::reference {

// The input of quantized weights: x (tokens, in) rounded to 8 bits per token and 32 inputs, as
// matmul.h says. The rounding is done in float, whatever Real is, so that it is the same
// everywhere.
template <class Real>
std::vector<Real> q8_rounded(View<const float> x);

// The input of many tokens where matmul.h says so: each number of x (tokens, in) as the sum of two
// bf16 numbers, which is a float again.
Tensor<float> bf16_pairs(View<const float> x);

template <class Real>
void matmul(const Weights& w, View<const float> x, View<Real> y, Store store = Store::overwrite);

// The same with each number of x and each weight rounded to bf16, where matmul.h says so.
template <class Real>
void matmul_bf16(const Weights& w, View<const float> x, View<Real> y, Store store = Store::overwrite);

}  // namespace deltasane::kernel::reference
