// The other rules as the generalized one, S <- S diag(w) + (S a) b' + v k'.
//
//     deltanet         w = 1             a = k       b = -beta k        v = beta v
//     gated_deltanet   w for all keys    a = k       b = -w beta k      v = beta v
//     kda              w                 a = w k     b = -beta k        v = beta v
//
// The generalized rule itself is lowered where the kernels need more keys than there are.
//
// Lowered owns the tensors of that form; its op is the one to run. It reads r and k where they are,
// unless keys are added: then they and the states are copied, filled up with zeros, which change
// nothing. raise_gradient() converts the gradients of the generalized form
// into those of the rule.
#pragma once

#include "kernel/delta_rule/delta_rule.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

struct Lowered {
  Tensor<float> w, a, b, v;
  Tensor<float> r, k, state;  // with more keys
  DeltaRule<float> op;        // key heads may be fewer than heads
};
// keys: of the lowered op, at least op's.
Lowered lower(const DeltaRule<float>& op, int64_t keys, const Cpu& cpu);
// Where keys were added: the final state, back into op's.
void store_final_state(const Lowered& lowered, const DeltaRule<float>& op);

// Of each head, with the keys of the lowered op.
struct LoweredGradient {
  Tensor<float> dr, dw, dk, dv, da, db;
  Tensor<float> dfinal, dinitial;  // with more keys
  DeltaRuleGradient<float> gradient;
};
LoweredGradient lower_gradient(const DeltaRule<float>& lowered,
                               const DeltaRuleGradient<float>& gradient);
// The gradients of a key head are added up over its heads, in their order.
void raise_gradient(const DeltaRule<float>& op, const LoweredGradient& lowered,
                    const DeltaRuleGradient<float>& gradient, const Cpu& cpu);

}  // namespace deltasane::kernel
