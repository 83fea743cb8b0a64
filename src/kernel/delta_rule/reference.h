// The definition of the operator, in float or double: plain loops, every state saved, any strides.
#pragma once

#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel::reference {

template <class Real>
void delta_rule(const DeltaRule<Real>& op);

template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient);

}  // namespace deltasane::kernel::reference
