#include "house/baseline_rules.h"

#include "base/error.h"
#include "base/io/file.h"
#include "house/architecture_names.h"
#include "house/baseline.h"
#include "house/single_home.h"
#include "house/sizes.h"

namespace deltasane::house {
namespace {

Findings named_architectures(const fs::path& root) {
  std::vector<Source> tree = sources(root, "src");
  for (Source& list : cmake_lists(root, "src")) tree.push_back(std::move(list));
  return check_architecture_names(tree);
}

constexpr BaselineRule rules[] = {
    {"architecture_names.txt", named_architectures},
    {"long_sources.txt", [](const fs::path& root) { return check_lines(all_sources(root)); }},
    {"large_folders.txt",
     [](const fs::path& root) { return check_folders(files_below(root, "src")); }},
    {"softplus.txt", [](const fs::path& root) { return check_softplus(sources(root, "src")); }},
    {"decode_loops.txt",
     [](const fs::path& root) { return check_decode_loops(sources(root, "src")); }},
};

}  // namespace

std::span<const BaselineRule> baseline_rules() { return rules; }

Findings check_rule(std::string_view baseline, const fs::path& root) {
  for (const BaselineRule& rule : rules)
    if (rule.baseline == baseline)
      return against_baseline(rule.violations(root), read_file(root / "test/house" / baseline),
                              std::string(baseline));
  fail(Fault::argument, baseline, ": expected the baseline of a rule, found none");
}

}  // namespace deltasane::house
