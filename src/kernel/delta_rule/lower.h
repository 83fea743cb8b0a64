// The other rules as the generalized one, S <- S diag(w) + (S a) b' + v k'.
//
//     deltanet         w = 1             a = k       b = -beta k        v = beta v
//     gated_deltanet   w for all keys    a = k       b = -w beta k      v = beta v
//     kda              w                 a = w k     b = -beta k        v = beta v
//
// Lowered owns the tensors of that form; its op is the one to run. raise_gradient() converts the
// gradients of the generalized form into those of the rule.
#pragma once

#include "kernel/delta_rule/delta_rule.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

struct Lowered {
  Tensor<float> w, a, b, v;
  DeltaRule<float> op;
};
Lowered lower(const DeltaRule<float>& op);

struct LoweredGradient {
  Tensor<float> dw, dk, dv, da, db;
  DeltaRuleGradient<float> gradient;
};
LoweredGradient lower_gradient(const DeltaRule<float>& op,
                               const DeltaRuleGradient<float>& gradient);
void raise_gradient(const DeltaRule<float>& op, const LoweredGradient& lowered,
                    const DeltaRuleGradient<float>& gradient);

}  // namespace deltasane::kernel
