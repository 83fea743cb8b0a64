// Sizes: a source over 800 lines is split; one over 500 is listed, and needs a reason in review.
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

struct Sizes {
  Findings too_long;
  Findings long_ones;
};

Sizes check_sizes(const std::vector<Source>& sources);

}  // namespace deltasane::house
