// The passes that the operator on a GPU is made of. See delta_rule/cuda.h for shapes and meanings
// of the pointers. A tile is 16 consecutive tokens.
#pragma once

#include <cstdint>

#include "kernel/delta_rule/cuda.h"

namespace deltasane::kernel::cuda {

constexpr int64_t state_entries = 64 * 64;
constexpr int64_t saved_state_floats = state_entries + 1;  // and a word for the magnitude class

// Forward, the tokens [from, from + count) of every sequence, one after the other: a block per
// head. For few tokens, any position and any chunk.
template <class Real>
struct TokenForward {
  DeltaRule<Real> op;
  int64_t from = 0, count = 0;
  const float* initial = nullptr;  // (batch, head, value, key); null: zero
  float* final_state = nullptr;
};
template <class Real>
void token_forward(const TokenForward<Real>& pass, const Gpu& gpu);

// Forward, all tokens, a tile at a time on the tensor cores: a block per head. Positions start a
// chunk of 16. Without y only states are computed.
template <class Real>
struct TileForward {
  DeltaRule<Real> op;
  // The states before every tile and the last one, (batch, head, tiles + 1), each as a SavedState,
  // and behind them their magnitude classes (saved_state.cuh). null: not wanted
  float* states = nullptr;
};
template <class Real>
void tile_forward(const TileForward<Real>& pass, const Gpu& gpu);
template <class Real>
uint64_t tile_forward_shared_bytes();  // of a block

// Forward, the first `tiles` tiles, from the beginning of a chunk, for few heads: what does not
// depend on the state is computed for many tiles at once, beside a short sequential kernel. Saves
// states where op.states is given; the operator then has no more tokens than these. Without y only
// states are computed.
template <class Real>
void few_heads_forward(const DeltaRule<Real>& op, int64_t tiles, float* scratch, float* final_state,
                       const Gpu& gpu);
template <class Real>
int64_t few_heads_scratch_floats(int64_t batch, int64_t heads, int64_t tiles);
template <class Real>
uint64_t few_heads_shared_bytes();  // of a block

// Backward through the states alone, from the last token to the first: given all of `states`,
// computes for every tile (batch, head, tile) D and M of input_backward.cu as a SavedGradient
// (saved_state.cuh), and the gradients of tau.
template <class Real>
struct BackwardPass {
  DeltaRule<Real> op;
  DeltaRuleGradient<Real> gradient;
  const float* states;
  bf16* dstates;
  // Where four blocks share a head, the partial sums of tau's gradients, (batch, chunk, head, 4),
  // which input_backward adds up. null: a block has a head
  float* dtau_parts;
};
// Whether they do: for few heads, or where a block has too little shared memory for one.
template <class Real>
bool blocks_share_heads(int64_t heads, const Gpu& gpu);
template <class Real>
constexpr int result_planes = 2;  // of operands that only results of type Real depend on
template <>
constexpr int result_planes<float> = 3;
template <class Real>
constexpr int64_t saved_gradient_elements = result_planes<Real>*(state_entries + 16 * 16);
template <class Real>
void state_backward(const BackwardPass<Real>& pass, const Gpu& gpu);

// Backward of the inputs, given `states` and `dstates`, all tiles at once: the gradients of r, w,
// k, v, a and b.
template <class Real>
void input_backward(const BackwardPass<Real>& pass, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
