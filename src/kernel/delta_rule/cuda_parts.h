// The parts the operator on a GPU is made of. See cuda.h for what the pointers mean.
#pragma once

#include <cstdint>

#include "kernel/delta_rule/cuda.h"

namespace deltasane::kernel::cuda {

constexpr int64_t state_entries = 64 * 64;

// Tokens [from, from + count) of every sequence of an operator, one after the other: a block per
// head. For many heads.
template <class Real>
struct TokenPass {
  DeltaRule<Real> op;
  int64_t from = 0, count = 0;
  const float* initial = nullptr;  // (batch, head, value, key); null: zero
  float* final_state = nullptr;
  // Where the states at the beginning of every tile are wanted, and the last one: (batch, head,
  // tiles + 1, value, key). Positions start a chunk then.
  float* states = nullptr;
};
template <class Real>
void token_pass(const TokenPass<Real>& pass, const Gpu& gpu);

// All tokens, 16 at a time on the tensor cores. Positions start a chunk of 16.
template <class Real>
void chain_pass(const TokenPass<Real>& pass, const Gpu& gpu);

// The way back through the states alone, from the last token to the first: given all of `states`,
// finds the gradients of the states at the end of every tile, as they were left: (batch, head, tiles,
// value, key).
template <class Real>
struct ReversePass {
  DeltaRule<Real> op;
  DeltaRuleGradient<Real> gradient;
  const float* states;
  float* dstates;
};
template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu);

// With `states` and `dstates`, all tiles at once: the gradients of r, w, k, v, a, b and tau.
template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu);

// The first `tiles` tiles of 16 tokens, from the beginning of a chunk, for few heads: what does not
// depend on the state is computed for all tiles at once; then only a short pass is sequential.
template <class Real>
void chunk_pass(const DeltaRule<Real>& op, int64_t tiles, float* terms, float* final_state,
                const Gpu& gpu);
int64_t chunk_pass_floats(int64_t batch, int64_t heads, int64_t tiles);

}  // namespace deltasane::kernel::cuda
