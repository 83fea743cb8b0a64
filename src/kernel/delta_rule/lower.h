// The other rules as the general one, S <- S diag(w) + (S a) b' + v k'.
//
//     deltanet         w = 1             a = k       b = -beta k        v = beta v
//     gated_deltanet   w for all keys    a = k       b = -w beta k      v = beta v
//     kimi             w                 a = w k     b = -beta k        v = beta v
//
// Lowered holds what had to be made; its op is the rwkv7 one to run. raise_gradient() takes the
// gradients of the general form back to those of the rule.
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
