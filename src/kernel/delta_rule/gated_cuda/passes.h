// The passes that the operator is made of. See terms.cuh for the letters.
#pragma once

#include "kernel/delta_rule/cuda/tile_progress.h"
#include "kernel/delta_rule/gated_cuda/gated_rule.h"

namespace deltasane::kernel::cuda {

constexpr int tile_size = 16;
// In a sequence of op.time tokens; see tiles.cuh.
inline int64_t tile_count(const GatedRule& op) {
  return (op.position % tile_size + op.time + tile_size - 1) / tile_size;
}

// What passes exchange, in global memory; the sizes are in bytes.
struct GatedPass {
  GatedRule op;
  GatedRuleGradient gradient;
  void* terms = nullptr;  // (batch, head, tile)
  // Of the terms, where forward over the states runs beside the kernel that makes them; null: all are
  // there.
  TileProgress progress;
  // Forward, where wanted: the states before every tile and at the end, (batch, head, tiles + 1),
  // the upper and the lower planes; E, (batch, head, tile).
  bf16 *state_upper = nullptr, *state_lower = nullptr, *missing = nullptr;
  // Backward: H, (batch, head, tile), its upper plane; dV, likewise; sums of tau's gradient over 16
  // rows of the state, (batch, chunk, head, values / 16).
  bf16 *dstate = nullptr, *dvalues = nullptr;
  float* dtau_parts = nullptr;
};

// The terms of all tiles. forward: of a pass that does not save states; where each channel has its
// decay, g of SANE is in them. backward: also the lower plane of Q_in.
enum class TermsFor { forward, saving, backward };
int64_t gated_terms_bytes(const GatedRule& op);
void gated_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu);

// Whether forward over the states can run beside the kernel that makes its terms: with few heads.
bool gated_terms_beside(const GatedRule& op, const Gpu& gpu);

// Forward over the states, tile after tile, given the terms. Without y, only the states.
void gated_state_forward(const GatedPass& pass, const Gpu& gpu);

// Forward token by token, for very few tokens.
void gated_token_forward(const GatedRule& op, const Gpu& gpu);

// Backward over the states from the last tile to the first, given the terms and what forward saved.
void gated_state_backward(const GatedPass& pass, const Gpu& gpu);

// The gradients of the inputs, all tiles at once, given what both passes over the states saved.
void gated_input_backward(const GatedPass& pass, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
