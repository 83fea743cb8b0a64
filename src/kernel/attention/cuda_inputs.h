// What attention reads of a token, in one kernel: RMS norms of its queries' and keys' heads, rotary
// positions, and its keys and values put into the cache of its sequence.
//
// x   (rows, H + 2 G, D), `step` numbers from row to row: queries, keys, values. Queries change in
//     place; keys and values stay as they were.
//
// The norms of norm/rms_reference.h, then rope/reference.h, are the definition.
#pragma once

#include "kernel/attention/cuda.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct AttentionInputs {
  RaggedRows rows;
  KeyValueCaches<Real> cache;
  int64_t heads = 0, kv_heads = 0, size = 0;
  Real* x = nullptr;
  int64_t step = 0;
  const float *q_norm = nullptr, *k_norm = nullptr;  // (D); null: no norms
  float eps = 0;
  int64_t rotary = 0;  // channels of a head that turn
  const double* frequencies = nullptr;  // (rotary / 2), as in rope/cuda.h
};
template <class Real>
void attention_inputs(const AttentionInputs<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
