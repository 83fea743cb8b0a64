// Runs gnuplot on a script.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file.h"

namespace deltasane::plot {

bool has_gnuplot();  // whether it is installed

// In `folder`, so that the script can use relative paths. Fails with the output of gnuplot.
void run_gnuplot(const std::string& script, const fs::path& folder);

// Text as a gnuplot string literal, in single quotes.
std::string gnuplot_text(std::string_view text);

// A script that draws `body` twice: as NAME.svg and as NAME.png.
std::string svg_and_png(const std::string& name, int width, int height, const std::string& body);

}  // namespace deltasane::plot
