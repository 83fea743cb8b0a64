// The 11 benchmarks of the paper, as their authors published them.
#pragma once

#include <string_view>

#include "eval/suite/rows.h"
#include "eval/suite/suite.h"

namespace deltasane::eval {

struct Published {
  std::string_view name;  // also the folder
  std::string_view title;
  int64_t rows;
  std::string_view instruction;
  RowRule rule;
  bool choices = false;
};

const std::vector<Published>& published_benchmarks();
Benchmark open_published(const Published& published, const SuiteOptions& options);

}  // namespace deltasane::eval
