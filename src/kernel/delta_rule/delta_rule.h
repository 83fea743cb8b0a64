// The delta-rule recurrence with SANE, forward and backward.
//
// Each head keeps a state matrix S, (value, key). For every token, by rule:
//
//     generalized      S <- S diag(w) + (S a) b' + v k'
//     deltanet         S <- S (I - beta k k') + beta v k'
//     gated_deltanet   S <- w S (I - beta k k') + beta v k'            one w per head
//     kda              S <- S diag(w) (I - beta k k') + beta v k'      one w per channel
//
//     y <- S r
//
// and then, where the token ends a chunk and the chunk is to be neutralized (SANE):
//
//     S <- tau tanh(S / tau)
//
// The token at absolute position p ends a chunk when (p + 1) % chunk == 0. A call sees the tokens
// position, position + 1, ...; the chunks that end in it are numbered from 0 in tau and neutralize.
// A padding token (present = 0) does not change S, has y = 0, and prevents the neutralization of
// its chunk; where a chunk is split over two calls, the caller does so with neutralize.
//
// w is the decay itself, in (0, 1]. Scales and normalisations of r and k are the caller's.
//
// All but `generalized` may have fewer key heads than heads: r and k are (batch, time, key head,
// key), and head h uses the key head floor(h / (heads / key heads)); the gradients of a key head are
// the sums over its heads.
// reference.cpp is the definition; everything else in this folder computes the same faster.
#pragma once

#include <cstdint>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

// generalized: the generalized delta rule. kda: Kimi Delta Attention.
enum class Rule { generalized, deltanet, gated_deltanet, kda };

const char* name_of(Rule rule);

// cuda.h has a struct of its own: its kernels take one rule, dense tensors, and two types at once.
template <class Real>
struct DeltaRule {
  Rule rule = Rule::generalized;
  View<const Real> r;     // (batch, time, key head, key)
  View<const Real> w;     // (batch, time, head, key); gated_deltanet: (batch, time, head)
  View<const Real> k;     // (batch, time, key head, key)
  View<const Real> v;     // (batch, time, head, value)
  View<const Real> a, b;  // (batch, time, head, key); generalized only
  View<const Real> beta;  // (batch, time, head); all but generalized

  View<const Real> tau;            // (batch, chunks, head); absent: no SANE
  View<const uint8_t> neutralize;  // (batch, chunks), 0 or 1; absent: all 1
  View<const uint8_t> present;     // (batch, time), 0 or 1; absent: all 1
  View<const int64_t> position;    // (batch), of the first token; absent: 0
  int64_t chunk = 16;

  View<const Real> initial;  // (batch, head, value, key); absent: zero
  View<Real> final_state;    // the same shape; absent: not wanted. May be initial's own memory.
  View<Real> y;              // (batch, time, head, value)
};

// Gradients of a loss. Inputs: those of y and of the final state. Outputs: the others, overwritten;
// an absent one is not computed.
template <class Real>
struct DeltaRuleGradient {
  View<const Real> dy;      // like y
  View<const Real> dfinal;  // like final_state; absent: zero
  View<Real> dr, dw, dk, dv, da, db, dbeta;  // like r, w, k, v, a, b, beta
  View<Real> dtau;  // like tau; chunks that were not neutralized get 0
  View<Real> dinitial;
};

void delta_rule(const DeltaRule<float>& op, const Cpu& cpu);

// op.y and op.final_state are not used.
void delta_rule_backward(const DeltaRule<float>& op, const DeltaRuleGradient<float>& gradient,
                         const Cpu& cpu);

// How many chunks end in a call of `time` tokens that starts at `position`.
constexpr int64_t chunks_ending(int64_t position, int64_t time, int64_t chunk) {
  return (position + time) / chunk - position / chunk;
}

}  // namespace deltasane::kernel
