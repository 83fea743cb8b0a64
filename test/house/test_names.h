// docs/reliability.md says which test shows a promise: each name is that of a test in this tree.
//
// A name is a word in backticks such as Suite.Name, Suite.* or Prefix/Suite.Name/parameter.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "house/finding.h"

namespace deltasane::house {

// Suite.Name of each TEST, TEST_F and TEST_P.
std::set<std::string> tests_in(std::string_view source);

Findings check_test_names(const std::string& document, std::string_view markdown,
                          const std::set<std::string>& tests);

}  // namespace deltasane::house
