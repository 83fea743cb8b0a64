// Baselines: the known violations of a rule, as a list that may only shrink.
//
// A baseline is a text file beside the tests, one path per line; # begins a comment. A violation at
// a path that is not listed fails, and so does a listed path without a violation: remove the line.
// An empty baseline is the goal. `house_baselines` (baseline_main.cpp) removes such lines.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "house/finding.h"

namespace deltasane::house {

std::set<std::string> listed_paths(std::string_view baseline);

// A finding at "PATH:LINE" belongs to PATH.
std::set<std::string> violating_paths(const Findings& findings);

// The findings that a test must report. `name` is the file name of the baseline, for messages.
Findings against_baseline(const Findings& findings, std::string_view baseline,
                          const std::string& name);

}  // namespace deltasane::house
