// y = output(W input(x)) for one or two rows on a GPU, fused with what makes the input of a matrix from
// the results of the one before, and captured with it: single tokens spend their time in loads of
// weights, and each kernel more is a pause of them.
//
//     plain        x                              (rows, columns)
//     norm         x / sqrt(mean x^2 + eps) w     w (columns)
//     head_norm    the same of each head of `size` columns, w (size), times act(gate + bias);
//                  size: a multiple of four
//     gated        x act(gate)                    x and gate in the weights' type
//
// output is y itself, or swiglu: silu of the first half of y times the second half.
//
// Weight is float or bf16; sums are float. kernel/norm/rms.h, kernel/activation/gated.h and
// kernel/matmul/matmul.h are the definitions.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/activation/gated.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

inline constexpr int64_t most_rows_of_few = 2;

enum class FewRowsInputKind { plain, norm, head_norm, gated };

template <class Weight>
struct FewRowsInput {
  using Kind = FewRowsInputKind;
  Kind kind = Kind::plain;
  const float* x = nullptr;
  const Weight *narrow_x = nullptr, *narrow_gate = nullptr;  // gated
  int64_t step = 0;                                          // from row to row of x
  const float* weight = nullptr;
  float eps = 0;
  int64_t size = 0;
  const float *gate = nullptr, *gate_bias = nullptr;  // null: none
  int64_t gate_step = 0;
  GateActivation activation = GateActivation::silu;
};

// The inputs of a short convolution (kernel/short_conv/cuda.h) that the states keep after a token of
// each sequence: done here, where no other kernel reads them.
struct KeptInputs {
  const float* x = nullptr;  // (rows, channels); null: nothing is kept
  int64_t step = 0, channels = 0, taps = 0, state_at = 0;
  float* const* states = nullptr;
};

template <class Weight>
struct FewRowsProduct {
  const Weight* matrix = nullptr;  // (outputs, columns), columns a multiple of 16 bytes
  int64_t rows = 0, outputs = 0, columns = 0;
  FewRowsInput<Weight> input;
  bool swiglu = false;
  // (rows, outputs), or half as many with swiglu; one of them.
  float* out = nullptr;
  Weight* narrow_out = nullptr;
  bool add = false;  // out += ...
  KeptInputs kept;
  // Shared memory of the blocks that run beside this product's on a multiprocessor: those of the kernels
  // before and after it. 0: half of it.
  int64_t beside = 0;
};
// That a block takes.
template <class Weight>
int64_t few_rows_shared_bytes(const FewRowsProduct<Weight>& op, const Gpu& gpu);
template <class Weight>
void few_rows_product(const FewRowsProduct<Weight>& op, const Gpu& gpu);

// Whether the sizes of a matrix are taken. Steps and places of inputs are multiples of four numbers.
template <class Weight>
constexpr bool has_few_rows_product(int64_t columns) {
  return columns > 0 && columns % int64_t(16 / sizeof(Weight)) == 0;
}

}  // namespace deltasane::kernel::cuda
