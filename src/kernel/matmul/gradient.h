// The gradients of y = x W', for training, in float.
//
//     matmul_nn      dx = dy W        dy (tokens, out), W (out, in), dx (tokens, in)
//     matmul_tn      dW = dy' x       x (tokens, in), dW (out, in)
//
// Written for any matrices: c = a b and c = a' b. Rows are contiguous, at any stride; c overlaps
// with neither a nor b. Results do not depend on the number of threads.
#pragma once

#include "kernel/matmul/matmul.h"

namespace deltasane::kernel {

// a (m, k), b (k, n), c (m, n)
void matmul_nn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store = Store::overwrite);

// a (k, m), b (k, n), c (m, n)
void matmul_tn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store = Store::overwrite);

}  // namespace deltasane::kernel
