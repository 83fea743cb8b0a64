// Every backend against the definition, by the rule of tensor/closeness.h.
#include "kernel/delta_rule/delta_rule.h"

#include <gtest/gtest.h>

#include "kernel/delta_rule/bench/check.h"
#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {
namespace {

class DeltaRuleOf : public testing::TestWithParam<Rule> {};

TEST_P(DeltaRuleOf, EveryBackendIsAsCloseToTheDefinitionAsPlainArithmetic) {
  ThreadPool threads(2);
  std::vector<Isa> isas;
  for (const Isa isa : float_isas)
    if (usable(isa)) isas.push_back(isa);
  uint64_t seed = 1;
  for (const ProblemShape& shape : delta_rule_cases(GetParam()))
    for (const std::string& fault : check_delta_rule(shape, seed++, threads, isas))
      ADD_FAILURE() << fault;
}

INSTANTIATE_TEST_SUITE_P(Rules, DeltaRuleOf,
                         testing::Values(Rule::generalized, Rule::deltanet, Rule::gated_deltanet,
                                         Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

}  // namespace
}  // namespace deltasane::kernel
