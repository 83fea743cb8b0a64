// A few products of bf16 or quantized matrices in one launch on a GPU, where a library would need most
// of the time to begin: those of low rank, and any of few rows.
//
//     out_i = f_i(a_i b_i')        a_i (rows, inner_i)   b_i (columns_i, inner_i)   out_i (rows, columns_i)
//
// Sums are float, and the order of their terms depends on inner_i and on whether b_i is quantized alone.
#pragma once

#include <cstdint>
#include <optional>

#include "base/half.h"
#include "kernel/activation/activation.h"
#include "kernel/matmul/quantized_cuda/matrix.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct GroupedProducts {
  static constexpr int most = 7;
  struct One {
    const bf16* a;
    GpuMatrix<bf16> b;
    int64_t columns, inner;  // multiples of 32; inner: whole blocks of a quantized b
    bf16* out = nullptr;     // one of both
    float* float_out = nullptr;
    std::optional<Activation> activation = {};
    bool add = false;  // to float_out
  };
  int64_t rows = 0;
  // The launch begins, with loads of b, while the kernel before it in the stream still runs.
  bool overlaps = false;
  int count = 0;
  One one[most] = {};
  void add(const One& product) { one[count++] = product; }
};
void multiply_grouped(const GroupedProducts& op, const Gpu& gpu);

// The same for 17 to 32 rows, b in bf16: a block has all of them, so that weights are read once; of more
// rows it is right, and slower than the library. `splits`: the inputs are divided into so many parts, and each of the sums of a part is a matrix of
// its own in float_out, (splits, rows, columns), for who adds them up; such products have no activation
// and are not added.
void multiply_tall(const GroupedProducts& op, int splits, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
