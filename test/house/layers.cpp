#include "house/layers.h"

#include <map>

#include "base/cat.h"
#include "house/text.h"

namespace deltasane::house {

namespace {

const std::map<std::string_view, int> level{
    {"base", 0},   {"tensor", 1}, {"text", 1},  {"plot", 1},   {"answers", 1}, {"kernel", 2},
    {"format", 2}, {"comm", 2},   {"model", 3}, {"corpus", 3}, {"train", 4},   {"infer", 4},
    {"probe", 4},  {"eval", 5},   {"serve", 5}, {"cli", 6},    {"api", 6},
    {"python", 7}};

std::string_view first_folder(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

// The path between the quotes of `#include "..."`, or nothing.
std::string_view quoted_include(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('#')) return {};
  line = trimmed(line.substr(1));
  if (!line.starts_with("include")) return {};
  line = trimmed(line.substr(7));
  if (!line.starts_with('"')) return {};
  return line.substr(1, line.find('"', 1) - 1);
}

std::string fault_of(std::string_view from, std::string_view include, bool test) {
  const std::string_view to = first_folder(include);
  if (to == from || (test && to == "support")) return {};
  if (!level.contains(to))
    return cat("includes \"", include, "\": expected a path that starts with a layer of src/");
  if (level.at(to) < level.at(from)) return {};
  return cat("includes \"", include, "\": ", from, " is on level ", level.at(from),
             " and may use lower ones only, ", to, " is on level ", level.at(to));
}

}  // namespace

Findings check_layers(const std::vector<Source>& sources) {
  Findings findings;
  for (const Source& source : sources) {
    if (!source.path.starts_with("src/")) continue;
    const std::string_view from = first_folder(std::string_view(source.path).substr(4));
    if (!level.contains(from)) {
      findings.push_back({source.path, "is in no known layer of src/"});
      continue;
    }
    const bool test = is_test_or_fixture(source.path);
    const std::string includes = views_of(source.text).includes;
    int number = 0;
    for (const std::string_view line : lines_of(includes)) {
      ++number;
      const std::string_view include = quoted_include(line);
      if (include.empty()) continue;
      if (std::string fault = fault_of(from, include, test); !fault.empty())
        findings.push_back({cat(source.path, ":", number), std::move(fault)});
    }
  }
  return findings;
}

}  // namespace deltasane::house
