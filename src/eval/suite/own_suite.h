// Suites of one's own, from a TOML file; its keys are listed in docs/evaluation.md.
#pragma once

#include <vector>

#include "eval/suite/suite.h"

namespace deltasane::eval {

std::vector<Benchmark> open_own_suite(const fs::path& file, const SuiteOptions& options);

}  // namespace deltasane::eval
