// What a sweep found, on one page: OUT/sweep.md with settings, training, tables and figures.
#pragma once

#include "cli/sweep/sweep_options.h"

namespace deltasane::cli {

fs::path write_sweep_page(const SweepOptions& options);
// The page's path, the runs, and the table of scores as `table --json` has it; null: none were asked.
std::string sweep_json(const SweepOptions& options, const fs::path& page);

}  // namespace deltasane::cli
