// Rows of an embedding table (embedding.h) on a GPU, and the gradient of the table.
//
//     x[row] = table[token of row]             with a norm: layer_norm of it
//     dtable[token of row] += dx[row]
//
// tokens       (rows)
// table        (vocabulary, C), float or bf16
// x, dx        (rows, C), float
// weight, bias (C), of the norm; null: none
//
// reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/rows/row_block.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

void embed(const RowBlock& rows, const int32_t* tokens, const float* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu);
void embed(const RowBlock& rows, const int32_t* tokens, const bf16* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu);

// Without a norm, of any number of channels.
template <class Real>
void embed(const RowBlock& rows, const int32_t* tokens, const Real* table, float* x,
           const Gpu& gpu);

// Rows are added in their order, without atomics: the result is the same every time.
void embed_backward(const RowBlock& rows, const int32_t* tokens, int64_t vocabulary,
                    const float* dx, float* dtable, int32_t* scratch, const Gpu& gpu);
int64_t embed_scratch(const RowBlock& rows, int64_t vocabulary);  // int32 elements

}  // namespace deltasane::kernel::cuda
