// The parts the operator on a GPU is made of. See cuda.h for what the pointers mean.
#pragma once

#include <cstdint>

#include "kernel/delta_rule/cuda.h"

namespace deltasane::kernel::cuda {

constexpr int64_t state_entries = 64 * 64;
constexpr int64_t kept_state_numbers = state_entries + 1;  // and a word of reach

// Tokens [from, from + count) of every sequence of an operator, one after the other: a block per
// head. For few tokens, any position and any chunk.
template <class Real>
struct TokenPass {
  DeltaRule<Real> op;
  int64_t from = 0, count = 0;
  const float* initial = nullptr;  // (batch, head, value, key); null: zero
  float* final_state = nullptr;
};
template <class Real>
void token_pass(const TokenPass<Real>& pass, const Gpu& gpu);

// All tokens, 16 at a time on the tensor cores: a block per head. Positions start a chunk of 16.
// Without y only states are made.
template <class Real>
struct ChainPass {
  DeltaRule<Real> op;
  // Where the states at the beginning of every tile are wanted, and the last one: (batch, head,
  // tiles + 1), each as a KeptState, and behind them how far they reach (cuda_operands.cuh).
  float* states = nullptr;
};
template <class Real>
void chain_pass(const ChainPass<Real>& pass, const Gpu& gpu);
template <class Real>
uint64_t chain_pass_shared();  // bytes that a block takes

// The way back through the states alone, from the last token to the first: given all of `states`,
// finds, for every tile (batch, head, tile), D and M of cuda_gradients.cu as a KeptGradient
// (cuda_operands.cuh), and the gradients of tau.
template <class Real>
struct ReversePass {
  DeltaRule<Real> op;
  DeltaRuleGradient<Real> gradient;
  const float* states;
  bf16* dstates;
  // Where four blocks share a head, parts of the gradients of tau go here, (batch, chunk, head, 4),
  // and are added up with the other gradients. null: a block has a head
  float* dtau_parts;
};
// Whether they do: of few heads, or where a block has too little shared memory for one.
template <class Real>
bool blocks_share_heads(int64_t heads, const Gpu& gpu);
template <class Real>
constexpr int result_planes = 2;  // of what only results of type Real are made of
template <>
constexpr int result_planes<float> = 3;
template <class Real>
constexpr int64_t kept_gradient_numbers = result_planes<Real>*(state_entries + 16 * 16);
template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu);

// With `states` and `dstates`, all tiles at once: the gradients of r, w, k, v, a and b.
template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu);

// The first `tiles` tiles of 16 tokens, from the beginning of a chunk, for few heads: what does not
// depend on the state is computed for many tiles at once; beside it a short pass is sequential.
// Keeps states where the operator has room for them, which then has no more tokens than these;
// without y only states are made.
template <class Real>
void chunk_pass(const DeltaRule<Real>& op, int64_t tiles, float* terms, float* final_state,
                const Gpu& gpu);
template <class Real>
int64_t chunk_pass_floats(int64_t batch, int64_t heads, int64_t tiles);
template <class Real>
uint64_t chunk_pass_shared();  // as chain_pass_shared

}  // namespace deltasane::kernel::cuda
