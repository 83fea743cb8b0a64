// A few products of bf16 matrices with few columns or few inputs each, in one launch on a GPU: those
// of low rank, each of which would take a library a launch of its own and most of the time to begin.
//
//     out_i = f_i(a_i b_i')        a_i (rows, inner_i)   b_i (columns_i, inner_i)   out_i (rows, columns_i)
//
// Sums are float, and the order of their terms depends on inner_i alone.
#pragma once

#include <cstdint>
#include <optional>

#include "base/half.h"
#include "kernel/activation/activation.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct GroupedProducts {
  static constexpr int most = 4;
  struct One {
    const bf16 *a, *b;
    int64_t columns, inner;  // multiples of 32
    bf16* out = nullptr;     // one of both
    float* float_out = nullptr;
    std::optional<Activation> activation = {};
  };
  int64_t rows = 0;
  int count = 0;
  One one[most] = {};
  void add(const One& product) { one[count++] = product; }
};
void multiply_grouped(const GroupedProducts& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
