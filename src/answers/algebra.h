// Whether two expressions are the same answer. Implemented by algebra/, which needs GMP and MPFR,
// or by no_algebra.cpp, which returns Verdict::unsupported.
#pragma once

#include "answers/tree.h"

namespace deltasane::answers {

Verdict compare_trees(const Tree& gold, const Tree& prediction, const CheckOptions& options);

}  // namespace deltasane::answers
