// Single home: computations that are written in one folder and called from everywhere else.
//
//   softplus       in src/kernel/sane: tau = alpha softplus(x) + 1 is computed nowhere else
//   decode loops   in src/infer/engine: no other code of train, infer, probe, eval, serve or cli
//                  samples a next token from logits
//
// The patterns are a table in single_home.cpp. Tests and fixtures are exempt.
#pragma once

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

Findings check_softplus(const std::vector<Source>& sources);
Findings check_decode_loops(const std::vector<Source>& sources);

}  // namespace deltasane::house
