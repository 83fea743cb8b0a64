// house_baselines ROOT: removes the lines of all baselines that no longer violate their rule.
// house_baselines ROOT all: writes all current violations, after a merge of two trees.
#include <iostream>

#include "base/error.h"
#include "base/io/file.h"
#include "house/baseline.h"
#include "house/baseline_rules.h"

using namespace deltasane;

int main(int count, char** words) try {
  const bool all = count == 3 && std::string_view(words[2]) == "all";
  if (count != 2 && !all) fail(Fault::usage, "usage: house_baselines ROOT [all]");
  const fs::path root = words[1];
  for (const house::BaselineRule& rule : house::baseline_rules()) {
    const fs::path path = root / "test/house" / rule.baseline;
    const auto violations = house::violating_paths(rule.violations(root));
    const auto listed = house::listed_paths(read_file(path));
    std::string text;
    for (const std::string& one : violations)
      if (all || listed.contains(one)) text += one + "\n";
    replace_file(path, text);
    std::cout << rule.baseline << ": " << violations.size() << " violations\n";
  }
  return 0;
} catch (const Error& error) {
  std::cerr << "house_baselines: " << error.what() << "\n";
  return error.fault() == Fault::usage ? 2 : 1;
}
