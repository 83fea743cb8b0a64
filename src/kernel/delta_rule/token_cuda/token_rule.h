// DeltaNet, Gated DeltaNet and Kimi Delta Attention with SANE on a GPU, token by token: for single
// tokens of sequences at any positions, and for numbers and sizes that gated_cuda/gated_rule.h does
// not take. The operator is that of gated_rule.h.
//
// Real is float or bf16; g, beta, tau and the states are float.
#pragma once

#include "base/half.h"
#include "kernel/delta_rule/delta_rule.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct TokenRule {
  Rule rule = Rule::gated_deltanet;
  RaggedRows rows;
  int64_t key_heads = 0, heads = 0;     // heads: a multiple of key_heads
  int64_t keys = 0, values = 0;         // keys: up to 256
  const Real *r = nullptr, *k = nullptr;  // (rows, key head, key)
  const Real* v = nullptr;              // (rows, head, value)
  const float* g = nullptr;             // (rows, head); kda: (rows, head, key); deltanet: null
  const float* beta = nullptr;          // (rows, head)
  const float* tau = nullptr;           // (rows, head), used where a chunk ends; null: no SANE
  int64_t chunks = 0;                   // tau is (sequences, chunks, head), from position 0 on; 0: no
  int64_t chunk = 16;                   // tokens of the stream
  int64_t state_at = 0;                 // of (head, value, key) in a sequence's state
  Real* y = nullptr;                    // (rows, head, value)
  // token_rule_states() floats in which forward saves the states that backward begins with; null:
  // not saved. Without rows.states, states begin as 0 and are not wanted.
  float* saved = nullptr;
};
template <class Real>
void token_rule(const TokenRule<Real>& op, const Gpu& gpu);

// The state before every 16th token: (sequence, head, tile, value, key).
template <class Real>
int64_t token_rule_states(const TokenRule<Real>& op);

// Of whole sequences, each from position 0 and a state of 0.
template <class Real>
struct TokenRuleGradient {
  const Real* dy = nullptr;
  Real *dr = nullptr, *dk = nullptr;  // summed over the heads that share a key head
  Real* dv = nullptr;
  float *dg = nullptr, *dbeta = nullptr;  // dg: required where g is given
  float* dtau = nullptr;                  // (sequences, chunks, head); required where tau is given
  float* scratch = nullptr;               // token_rule_scratch() floats
};
template <class Real>
int64_t token_rule_scratch(const TokenRule<Real>& op);
// op.y is not used; op.saved is what forward saved, and tau is given by chunks.
template <class Real>
void token_rule_backward(const TokenRule<Real>& op, const TokenRuleGradient<Real>& gradient,
                         const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
