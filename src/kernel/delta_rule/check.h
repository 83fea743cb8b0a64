// The operator's own check: every backend this machine has, against the definition in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/delta_rule/problem.h"

namespace deltasane::kernel {

// What is wrong with one kind of case, forward and backward, on some instruction sets; empty:
// nothing. Four cases of the kind are judged together, so that the yardstick, the worst error of
// plain arithmetic, is the worst of many numbers even for small outputs.
std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed,
                                          ThreadPool& threads, std::span<const Isa> isas);

// Cases that reach every path of a rule: head sizes, odd lengths, padding, positions, chunk sizes,
// no SANE, strong and weak SANE.
std::vector<ProblemShape> delta_rule_cases(Rule rule);

}  // namespace deltasane::kernel
