// What a run of the tests left in its JUnit file besides passed and failed: skipped tests with
// their reasons, and notes (lines that begin with "note: ").
//
// A skip is expected when a line of test/expected_skips.txt matches its name and its reason:
//
//     NAME-PATTERN  REASON-PATTERN      # * stands for anything, the reason may hold blanks
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
