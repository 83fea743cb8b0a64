// The paper's table from runs, as `deltasane table` and a sweep write it.
#pragma once

#include <string>
#include <vector>

#include "base/io/file.h"
#include "eval/table/sweep_report.h"

namespace deltasane::cli {

// Folders of eval, with and without a prefix; folders of streams that overflowed, which say that a model has
// no scores after the prefix; or one CSV file of scores.
eval::SweepTable read_sweep_table(const std::vector<std::string>& runs,
                                  eval::Unfinished unfinished);

// Writes table.md, table.csv, table.tex, p_values.csv, and accuracy.svg and accuracy.png where a model has an
// alpha.
void write_sweep_table(const eval::SweepTable& table, const eval::SweepVerdict& verdict,
                       const fs::path& folder);

}  // namespace deltasane::cli
