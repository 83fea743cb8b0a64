// Causal attention with grouped heads (attention.h) over whole sequences on a GPU, and its gradient,
// for training: blocks of queries as products of matrices. Real is float or bf16: the type of what
// products read; scores and sums are float.
//
// q, y   (sequences, time, H, D), packed
// k, v   (sequences, time, G, D), packed
//
// A token that is not present is not seen, and gives 0. reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/matmul/cuda.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct WholeAttention {
  int64_t sequences = 0, time = 0, heads = 0, kv_heads = 0, size = 0;
  const Real *q = nullptr, *k = nullptr, *v = nullptr;
  float scale = 1;
  int64_t window = 0;                // tokens that one sees; 0: all
  const uint8_t* present = nullptr;  // (sequences, time); null: all 1
  Real* y = nullptr;
  std::byte* scratch = nullptr;  // whole_attention_scratch() bytes
};
template <class Real>
uint64_t whole_attention_scratch(const WholeAttention<Real>& op);
template <class Real>
void whole_attention(const WholeAttention<Real>& op, Products& products, const Gpu& gpu);

template <class Real>
struct WholeAttentionGradient {
  const Real* dy = nullptr;
  Real *dq = nullptr, *dk = nullptr, *dv = nullptr;  // overwritten
};
// op.y is not used.
template <class Real>
void whole_attention_backward(const WholeAttention<Real>& op, const WholeAttentionGradient<Real>& d,
                              Products& products, const Gpu& gpu);

// What lies between the products, for a block of queries of the heads of a group: P = softmax(scale S)
// of the rows that each query sees, 0 for the others; and with dP, dS = scale P (dP - sum P dP).
template <class Real>
struct SoftmaxBlock {
  int64_t heads, queries, keys;  // of the group; keys: the rows up to the last query's
  int64_t first, window;         // of the first query
  const uint8_t* present;        // of the sequence; null: all 1
  float scale;
  const float *scores, *dp;  // (heads, queries, keys); dp null: no gradient
  Real *p, *ds;              // the same
};
template <class Real>
void softmax_block(const SoftmaxBlock<Real>& op, const Gpu& gpu);

// to[i step + c] = x[i size + c], over (rows, size).
template <class Real>
void store_rows(const float* x, int64_t rows, int64_t size, Real* to, int64_t step, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
