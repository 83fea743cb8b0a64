// For tests: the configuration of a short run that uses most of what there is.
#pragma once

#include <string>
#include <string_view>

#include "base/cat.h"
#include "model/train/parameters.h"

namespace deltasane::train::test {

// What differs: lines for [model], for [optimizer], sections after it, and lines for [run].
struct RunConfigParts {
  std::string_view model, optimizer = "", sections = "", run = "";
};

inline std::string run_config(const RunConfigParts& parts) {
  return cat(R"(
[model]
layers = 2
sane_alpha = 3
)",
             parts.model, R"(
[corpus]
source = "math-chat:seed=5,level=1-1"
learn = "answers"
[optimizer]
kind = "muon"
steps = 6
sequences = 2
context = 40
accumulate = 2
rate = 0.01
wrap = 1e-4
)",
             parts.optimizer, "\n", parts.sections, R"(
[run]
folder = "nowhere"
)",
             parts.run, "\n");
}

// A parameter of a role: the last one.
inline const std::string& last_of(ParameterRole role, const ParameterLayout& layout) {
  const ParameterSlot* found = nullptr;
  for (const ParameterSlot& slot : layout.slots())
    if (slot.role == role) found = &slot;
  require(found != nullptr, "there is such a parameter");
  return found->name;
}

}  // namespace deltasane::train::test
