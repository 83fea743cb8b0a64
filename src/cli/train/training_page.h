// The page of a training run: loss, rate, gradient norm and evaluations, from its metrics.
#pragma once

#include "base/io/file.h"

namespace deltasane::cli {

// FOLDER/report.html, from FOLDER/metrics.jsonl. Nothing is written where there are no rows yet.
void write_training_page(const fs::path& folder, const std::string& title);

}  // namespace deltasane::cli
