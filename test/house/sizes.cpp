#include "house/sizes.h"

#include <map>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

constexpr size_t max_lines = 500, max_files = 25;

}  // namespace

Findings check_lines(const std::vector<Source>& sources) {
  Findings findings;
  for (const Source& source : sources)
    if (const size_t lines = lines_of(source.text).size(); lines > max_lines)
      findings.push_back(
          {source.path, cat("expected at most ", max_lines, " lines, found ", lines)});
  return findings;
}

Findings check_folders(const std::vector<std::string>& paths) {
  std::map<std::string, size_t> files;
  for (const std::string& path : paths) ++files[path.substr(0, path.rfind('/'))];
  Findings findings;
  for (const auto& [folder, count] : files)
    if (count > max_files)
      findings.push_back({folder, cat("expected at most ", max_files, " files, found ", count,
                                      ": make subfolders")});
  return findings;
}

}  // namespace deltasane::house
