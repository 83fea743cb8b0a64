// The two models of the demonstration, with and without SANE, and what both read and are asked.
#pragma once

#include <optional>
#include <string>

#include "base/io/file.h"

namespace deltasane::cli {

// What both models read, and the problems they are asked.
struct DemoTask {
  std::string corpus, problems;
  int64_t tokens;
};

struct DemoPair {
  fs::path baseline, sane;
  DemoTask task;
  const char* origin;
};

// The models of experiments/embedded_pair.sh, and what they learned there. `folder`: of the two; if
// empty, models/ here or of the checkout this program was built in. None where they are not there.
std::optional<DemoPair> shipped_pair(const fs::path& folder);

}  // namespace deltasane::cli
