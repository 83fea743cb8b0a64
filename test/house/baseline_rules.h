// The rules with a baseline, and the current violations of a tree.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "house/finding.h"

namespace deltasane::house {

struct BaselineRule {
  std::string_view baseline;  // file name in test/house
  Findings (*violations)(const std::filesystem::path& root);
};

std::span<const BaselineRule> baseline_rules();

// The violations that the test of this baseline must report.
Findings check_rule(std::string_view baseline, const std::filesystem::path& root);

}  // namespace deltasane::house
