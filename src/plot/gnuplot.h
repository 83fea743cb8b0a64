// Runs gnuplot on a script.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace deltasane::plot {

// In `folder`, so that a script names files shortly. Fails with what gnuplot said.
void run_gnuplot(const std::string& script, const fs::path& folder);

// Text as a string of gnuplot's, in single quotes.
std::string gnuplot_text(std::string_view text);

}  // namespace deltasane::plot
