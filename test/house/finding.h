// A violation that a check found. A check returns all of them; none means that it passed.
#pragma once

#include <string>
#include <vector>

namespace deltasane::house {

struct Finding {
  std::string where;  // "src/base/io/file.h:12"
  std::string what;
  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

std::string to_string(const Findings& findings);  // one line each

}  // namespace deltasane::house
