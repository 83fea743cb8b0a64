// DeltaNet, Gated DeltaNet and Kimi Delta Attention with SANE on a GPU,
//
//     S <- S diag(e^g);  S <- S + beta (v - S k) k'      y <- S r
//     S <- tau tanh(S / tau) after token p with (p + 1) % 16 == 0
//
// the operator of delta_rule.h for these rules, with chunks of 16, every token present and all
// sequences at one position. The decay is given as its logarithm g <= 0, which may be -infinity;
// only ratios of decays that are at most 1 are formed, so that no decay is too strong.
//
// Vectors and their gradients are bf16; g, beta, tau, the state and their gradients are float.
// Tensors are packed, on the GPU, and may be absent (null) where stated.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/delta_rule/cuda.h"
#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel::cuda {

struct GatedRule {
  Rule rule = Rule::gated_deltanet;
  int64_t batch = 0, time = 0, key_heads = 0, heads = 0;  // heads: a multiple of key_heads
  int64_t keys = 0, values = 0;           // 64, 96, 128 or 256; a multiple of 16, of 32 backward
  int64_t position = 0;                   // of the first token, of every sequence
  const bf16 *r = nullptr, *k = nullptr;  // (batch, time, key head, key)
  const bf16* v = nullptr;                // (batch, time, head, value)
  // (batch, time, head); kda: (batch, time, head, key); deltanet: null
  const float* g = nullptr;
  const float* beta = nullptr;     // (batch, time, head)
  const float* tau = nullptr;      // (batch, chunks that end here, head); null: no SANE
  const float* initial = nullptr;  // (batch, head, value, key); null: zero
  float* final_state = nullptr;    // the same; null: not wanted. May be initial's own memory.
  bf16* y = nullptr;               // (batch, time, head, value)
  // gated_rule_states() floats in which forward saves what backward, which is given the same
  // pointer, needs of it. null: not saved
  float* states = nullptr;
  // (batch), on the GPU: how many of its tokens each sequence has, 1 to time; what follows them is
  // not read, and results are not written there. null: all have `time`
  const int32_t* lengths = nullptr;
};
int64_t gated_rule_states(const GatedRule& op);

struct GatedRuleGradient {
  const bf16* dy = nullptr;
  const float* dfinal = nullptr;      // null: zero
  bf16 *dr = nullptr, *dk = nullptr;  // summed over the heads that share a key head
  bf16* dv = nullptr;
  float *dg = nullptr, *dbeta = nullptr;  // dg: required where g is given
  float* dtau = nullptr;                  // like tau; required where tau is given
  float* dinitial = nullptr;              // null: not wanted
};

// Fails where the GPU or the heads' sizes are not supported.
void gated_rule(const GatedRule& op, DeltaRuleScratch& scratch, const Gpu& gpu);

// Floats that both ask of their scratch, at most.
int64_t gated_rule_scratch(const GatedRule& op);

// op.y and op.final_state are not used.
void gated_rule_backward(const GatedRule& op, const GatedRuleGradient& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
