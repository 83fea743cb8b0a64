// Skipped tests with their reasons, and notes (lines that begin with "note: "), from the JUnit file
// of a test run.
//
// A skip is expected when a line of test/expected_skips.txt matches its name and its reason:
//
//     NAME-PATTERN  REASON-PATTERN      # * stands for anything, the reason may contain blanks
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deltasane::house {

struct Skip {
  std::string name, reason;
  bool operator==(const Skip&) const = default;
};

struct Report {
  size_t tests = 0;
  std::vector<Skip> skips;
  std::vector<std::string> notes;
};

Report read_report(std::string_view junit);

bool is_expected(const Skip& skip, std::string_view expected_skips);

}  // namespace deltasane::house
