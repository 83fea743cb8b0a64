// What a sweep found, on one page: OUT/sweep.md with settings, training, tables and figures.
#pragma once

#include "cli/sweep/sweep_options.h"

namespace deltasane::cli {

fs::path write_sweep_page(const SweepOptions& options);

}  // namespace deltasane::cli
