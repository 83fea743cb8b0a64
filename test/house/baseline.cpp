#include "house/baseline.h"

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

std::string path_of(const Finding& finding) {
  return finding.where.substr(0, finding.where.find(':'));
}

}  // namespace

std::set<std::string> listed_paths(std::string_view baseline) {
  std::set<std::string> paths;
  for (const std::string_view line : lines_of(baseline)) {
    const std::string_view path = trimmed(line.substr(0, line.find('#')));
    if (!path.empty()) paths.emplace(path);
  }
  return paths;
}

std::set<std::string> violating_paths(const Findings& findings) {
  std::set<std::string> paths;
  for (const Finding& finding : findings) paths.insert(path_of(finding));
  return paths;
}

Findings against_baseline(const Findings& findings, std::string_view baseline,
                          const std::string& name) {
  const std::set<std::string> listed = listed_paths(baseline);
  const std::set<std::string> violating = violating_paths(findings);
  Findings unexpected;
  for (const Finding& finding : findings)
    if (!listed.contains(path_of(finding))) unexpected.push_back(finding);
  for (const std::string& path : listed)
    if (!violating.contains(path))
      unexpected.push_back(
          {cat("test/house/", name),
           cat("lists ", path, ", which no longer violates the rule: remove the line")});
  return unexpected;
}

}  // namespace deltasane::house
