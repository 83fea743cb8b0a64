// Whether two expressions are the same answer. Two files can stand behind this: algebra/, which
// needs GMP and MPFR, and no_algebra.cpp, which refuses.
#pragma once

#include "answers/tree.h"

namespace deltasane::answers {

Verdict compare_trees(const Tree& gold, const Tree& prediction, const CheckOptions& options);

}  // namespace deltasane::answers
