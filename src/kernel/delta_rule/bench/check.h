// The operator's own check: every backend this machine has, against the definition in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/delta_rule/bench/problem.h"

namespace deltasane::kernel {

// The faults of one kind of case, forward and backward, on some instruction sets; empty: none. Four
// cases of the kind are compared together, so that the allowed error, which follows from the worst
// error of plain arithmetic, is that of many numbers even for small outputs.
std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed,
                                          ThreadPool& threads, std::span<const Isa> isas);

// Cases that cover every path of a rule: head sizes, odd lengths, padding, positions, chunk sizes,
// no SANE, strong and weak SANE.
std::vector<ProblemShape> delta_rule_cases(Rule rule);

}  // namespace deltasane::kernel
