// What callers may pass: shapes that agree, masks of 0 and 1, a finite tau above 0. An error names
// the argument, what was expected and what was found.
#pragma once

#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel {

template <class Real>
void validate(const DeltaRule<Real>& op);

template <class Real>
void validate(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient);

}  // namespace deltasane::kernel
