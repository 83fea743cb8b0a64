// What callers may hand in: shapes that agree, masks of 0 and 1, a finite tau above 0. A wrong
// argument is an error that names it, what was expected and what was found.
#pragma once

#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel {

template <class Real>
void validate(const DeltaRule<Real>& op);

template <class Real>
void validate(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient);

}  // namespace deltasane::kernel
