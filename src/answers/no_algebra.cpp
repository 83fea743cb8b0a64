#include "answers/algebra.h"

namespace deltasane::answers {

bool has_algebra() { return false; }

Verdict compare_trees(const Tree&, const Tree&, const CheckOptions&) {
  return Verdict::unsupported;
}

}  // namespace deltasane::answers
