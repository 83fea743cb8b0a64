// The names of rules that Python hands over.
#pragma once

#include <string>

#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::python {

inline kernel::Rule rule_named(const std::string& name) {
  for (const kernel::Rule rule : {kernel::Rule::generalized, kernel::Rule::deltanet,
                                  kernel::Rule::gated_deltanet, kernel::Rule::kda})
    if (name == kernel::name_of(rule)) return rule;
  fail(Fault::argument, "rule: expected generalized, deltanet, gated_deltanet or kda, found '",
       name, "'");
}

}  // namespace deltasane::python
